import { chown, mkdir } from "node:fs/promises";
import path from "node:path";
import { make, type Plane } from "../kubeplane/plane.ts";
import type { RealNode } from "./real-node.ts";

/** Creates the disk that the next claim gets. @returns its directory, which `Delete` removes with the claim */
export async function addDisk(
  plane: Plane,
  node: Pick<RealNode, "directory">,
  name: string,
  reclaim: "Retain" | "Delete" = "Retain",
): Promise<string> {
  const directory = path.join(node.directory, "disks", name);
  await mkdir(directory, { recursive: true });
  await chown(directory, 999, 999);
  await make(plane.admin, "/api/v1/persistentvolumes", {
    metadata: { name },
    spec: {
      capacity: { storage: "5Gi" },
      accessModes: ["ReadWriteOnce"],
      storageClassName: "",
      persistentVolumeReclaimPolicy: reclaim,
      hostPath: { path: directory },
    },
  });
  return directory;
}
