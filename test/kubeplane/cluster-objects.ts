import { make, type Plane } from "./plane.ts";

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** Installs the kinds of an operator, without the operator. */
export function define({ admin }: Plane, group: string, version: string, names: { kind: string; plural: string }[]) {
  return Promise.all(
    names.map(({ kind, plural }) =>
      make(admin, definitions, {
        metadata: {
          name: `${plural}.${group}`,
          annotations: { "api-approved.kubernetes.io": "unapproved, for a test" },
        },
        spec: {
          group,
          scope: "Namespaced",
          names: { kind, plural, singular: kind.toLowerCase() },
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

const classes = "/apis/storage.k8s.io/v1/storageclasses";

/** Creates a default class for claims until it is disposed. Its disks may grow. */
export async function addGrowingClass({ admin }: Plane, name: string): Promise<AsyncDisposable> {
  await make(admin, classes, {
    metadata: { name, annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
    provisioner: "example.com/nobody",
    allowVolumeExpansion: true,
  });
  const signal = () => AbortSignal.timeout(30_000);
  return {
    [Symbol.asyncDispose]: () =>
      admin.call({ method: "DELETE", path: `${classes}/${name}`, signal: signal() }).then(() => {}),
  };
}

/** Creates a disk for a claim without a class, or of the given class. */
export const addDisk = ({ admin }: Plane, name: string, storageClassName = "") =>
  make(admin, "/api/v1/persistentvolumes", {
    metadata: { name },
    spec: {
      capacity: { storage: "5Gi" },
      accessModes: ["ReadWriteOnce"],
      storageClassName,
      ...{ persistentVolumeReclaimPolicy: "Retain", hostPath: { path: `/nowhere/${name}` } },
    },
  });
