import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { BucketSettings } from "../../src/integrations/object-storage.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { buildGoProgram } from "../support/go-program.ts";

/** Builds the Versity S3 Gateway, which keeps objects as files, in a minute and a half of processor time. */
export const buildObjectServer = () =>
  buildGoProgram({
    name: "versitygw",
    directory: import.meta.dirname,
    version: "1",
    sources: ["go.mod", "go.sum"],
    args: ["-ldflags", "-s -w", "github.com/versity/versitygw/cmd/versitygw"],
  });

export interface ObjectServer extends AsyncDisposable {
  bucket: BucketSettings;
  /** The bucket as settings of a server. */
  environment: Record<string, string>;
  /** Directory with the objects as files. */
  directory: string;
}

/** Starts a server of the S3 protocol with one empty bucket. */
export async function startObjectServer(): Promise<ObjectServer> {
  const built = await buildObjectServer();
  if ("missing" in built) throw new Error(built.missing);
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-objects-"));
  const directory = path.join(root, "sources");
  await mkdir(directory);
  const port = await freePort();
  const bucket: BucketSettings = {
    endpoint: `http://127.0.0.1:${port}`,
    ...{ region: "us-east-1", bucket: "sources", prefix: "", accessKeyId: "pierhead", secretAccessKey: "of-a-test" },
  };
  const server = spawn(built.path, ["--port", `127.0.0.1:${port}`, "--quiet", "posix", root], {
    env: { ROOT_ACCESS_KEY: bucket.accessKeyId, ROOT_SECRET_KEY: bucket.secretAccessKey },
    stdio: "ignore",
  });
  const ended = once(server, "exit");
  await eventually(
    () => fetch(bucket.endpoint).then(Boolean, () => false),
    (isUp) => isUp,
    { timeoutMs: 20_000, what: "the object server" },
  );
  return {
    bucket,
    environment: {
      PIERHEAD_S3_BUCKET: bucket.bucket,
      PIERHEAD_S3_ENDPOINT: bucket.endpoint,
      PIERHEAD_S3_ACCESS_KEY_ID: bucket.accessKeyId,
      PIERHEAD_S3_SECRET_ACCESS_KEY: bucket.secretAccessKey,
    },
    directory,
    async [Symbol.asyncDispose]() {
      server.kill("SIGTERM");
      await ended;
      await rm(root, { recursive: true, force: true });
    },
  };
}
