/** An object as this listener writes it. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    ownerReferences?: object[];
    finalizers?: string[];
    resourceVersion?: string;
  };
  [part: string]: unknown;
}

/** An object as the API server returns it. */
export interface LiveObject extends Manifest {
  metadata: Manifest["metadata"] & {
    uid: string;
    resourceVersion: string;
    generation?: number;
    creationTimestamp: string;
    deletionTimestamp?: string;
    managedFields?: { manager: string; operation: string; fieldsV1?: object }[];
  };
}
