import { make, type Plane } from "./plane.ts";

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** The kinds of an operator, without the operator. */
export function define({ admin }: Plane, group: string, version: string, names: { kind: string; plural: string }[]) {
  return Promise.all(
    names.map(({ kind, plural }) =>
      make(admin, definitions, {
        metadata: {
          name: `${plural}.${group}`,
          annotations: { "api-approved.kubernetes.io": "unapproved, for a test" },
        },
        spec: {
          ...{ group, scope: "Namespaced", names: { kind, plural, singular: kind.toLowerCase() } },
          versions: [
            {
              ...{ name: version, served: true, storage: true, subresources: { status: {} } },
              schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
            },
          ],
        },
      }),
    ),
  );
}

/** A disk that a claim without a class can have. */
export const addDisk = ({ admin }: Plane, name: string) =>
  make(admin, "/api/v1/persistentvolumes", {
    metadata: { name },
    spec: {
      ...{ capacity: { storage: "5Gi" }, accessModes: ["ReadWriteOnce"], storageClassName: "" },
      ...{ persistentVolumeReclaimPolicy: "Retain", hostPath: { path: `/nowhere/${name}` } },
    },
  });
