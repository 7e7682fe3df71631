import type pg from "pg";
import type { Client } from "../../src/client/client.ts";
import { gzippedTar } from "../builds/tar-fixture.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { filesBelow } from "../support/files-below.ts";
import { retryUntilAnswered } from "./retry-calls.ts";
import type { SimulatedBuilds } from "./simulated-builds.ts";

/** Uploads in a bucket that all replicas share, and what is built from them. */
export interface UploadStorm {
  /** The bucket as settings of a server. */
  environment: Record<string, string>;
  /** Directory in which the server of the bucket keeps objects as files. */
  directory: string;
  /** Deployments on process compute, each from its own upload. */
  agents: number;
  /** Deployments whose images a listener builds, each from its own upload. */
  images: number;
}

/** Creates a deployment, uploads its source and deploys it. */
export async function createUploaded(
  api: Client,
  { name, listenerId }: { name: string; listenerId: string | null },
): Promise<string> {
  const body = {
    ...{ name, source: "internal_source" as const, source_revision_config: {}, secrets: [] },
    source_config: listenerId === null ? { deployment_type: "dev" as const } : { listener_id: listenerId },
  };
  const { id } = await retryUntilAnswered((idempotencyKey) => api.createDeployment({ body }, { idempotencyKey }));
  const archive = new Blob([new Uint8Array(archiveOf(name))]);
  const { upload_url, object_path } = await retryUntilAnswered((idempotencyKey) =>
    api.createUploadUrl({ deployment_id: id }, { idempotencyKey }),
  );
  await retryUntilAnswered(() => api.uploadArchive(upload_url, archive));
  const change = {
    revision_source: "internal_source" as const,
    source_revision_config: { source_tarball_path: object_path, langgraph_config_path: "pierhead.json" },
  };
  await retryUntilAnswered((idempotencyKey) =>
    api.patchDeployment({ deployment_id: id, body: change }, { idempotencyKey }),
  );
  return id;
}

const archiveOf = (version: string) =>
  gzippedTar(Object.entries(nodeAgent(version)).map(([name, content]) => ({ name, content })));

/** Counts deployments that do not run the image of their own upload. */
export async function countWrongImages(
  db: pg.Client,
  images: { id: string; version: string }[],
  { sources }: SimulatedBuilds,
): Promise<Record<string, number>> {
  let wrong = 0;
  for (const { id, version } of images) {
    const { rows } = await db.query(
      "select spec -> 'target' -> 'artifact' ->> 'uri' as image from assignments where deployment_id = $1",
      [id],
    );
    if (!sources.get(rows[0]?.image)?.includes(`"${version}"`)) wrong += 1;
  }
  return { "images of another source": wrong };
}

/** Counts what deleted deployments have left in the bucket. */
export async function countObjectsLeft({ directory }: UploadStorm): Promise<Record<string, number>> {
  const count = async () => (await filesBelow(directory)).length;
  const left = await eventually(count, (found) => found === 0, { timeoutMs: 30_000 }).catch(count);
  return { "objects left in the bucket": left };
}
