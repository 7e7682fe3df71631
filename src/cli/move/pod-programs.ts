import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import path from "node:path";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { selectorOf } from "../../compute/kubernetes/render/names.ts";
import { containerPrograms, type PostgresPrograms } from "../../provision/postgres-programs.ts";
import type { Environment } from "../context.ts";
import { CliFailure } from "../failure.ts";

interface Cluster {
  /** Of kubectl. */
  context: string;
  env: Environment;
  signal: AbortSignal;
}

/**
 * Finds the pod with the PostgreSQL of a deployment in a cluster and returns the programs in it, which kubectl runs there.
 * @throws CliFailure if there is no such pod, or kubectl cannot reach the cluster
 */
export async function podPrograms({
  deploymentId,
  ...cluster
}: Cluster & { deploymentId: string }): Promise<PostgresPrograms & AsyncDisposable> {
  const selector = Object.entries(selectorOf(deploymentId, "postgres")).map(([label, value]) => `${label}=${value}`);
  const found = await read(cluster, [
    "get",
    "pods",
    "--all-namespaces",
    "--selector",
    selector.join(),
    "--output",
    "json",
  ]);
  const [pod] = (JSON.parse(found) as { items: { metadata: { name: string; namespace: string } }[] }).items;
  if (pod === undefined) {
    throw new CliFailure(`The cluster of the kubectl context ${cluster.context} has no pod with this database.`, {
      hints: ["Look for it: kubectl get pods --all-namespaces", "By hand: docs/guides/moving.md"],
    });
  }
  const { name, namespace } = pod.metadata;
  const inPod = (argv: readonly string[]) => ["exec", "--stdin", "--namespace", namespace, name, "--", ...argv];
  const directory = `/tmp/pierhead-${randomUUID()}`;
  const programs = containerPrograms(
    {
      name,
      run: (argv, env, output) => {
        const variables = Object.entries(env).map(([variable, value]) => `${variable}=${value}`);
        return run(cluster, inPod(["env", ...variables, ...argv]), output);
      },
      async copyIn(file) {
        const there = path.posix.join(directory, path.basename(file));
        const script = 'umask 077 && mkdir -p "$0" && cat > "$1"';
        const argv = inPod(["sh", "-c", script, directory, there]);
        await succeed(cluster, run(cluster, argv, new PassThrough().resume(), createReadStream(file)));
        return there;
      },
    },
    "agent",
  );
  return {
    ...programs,
    async [Symbol.asyncDispose]() {
      const ending = { ...cluster, signal: AbortSignal.timeout(10_000) };
      await run(ending, inPod(["rm", "-rf", "--", directory]), new PassThrough().resume()).catch(() => {});
    },
  };
}

async function read(cluster: Cluster, argv: readonly string[]): Promise<string> {
  const output = new PassThrough();
  const [printed] = await Promise.all([text(output), succeed(cluster, run(cluster, argv, output))]);
  return printed;
}

async function succeed({ context }: Cluster, running: ReturnType<typeof run>): Promise<void> {
  const { exitCode, errorOutput } = await running;
  if (exitCode === 0) return;
  throw new CliFailure(`kubectl failed with its context ${context}.`, { because: errorOutput.trim() });
}

/** kubectl repeats its complaint. The end of it is enough. */
const errorOutputMax = 16_384;

async function run(
  { context, env, signal }: Cluster,
  argv: readonly string[],
  output: Writable,
  input?: Readable,
): Promise<{ exitCode: number; errorOutput: string }> {
  const child = spawn("kubectl", ["--context", context, ...argv], {
    env: env as NodeJS.ProcessEnv,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    signal,
  });
  let errorOutput = "";
  child.stderr?.setEncoding("utf8").on("data", (part: string) => {
    errorOutput = (errorOutput + part).slice(-errorOutputMax);
  });
  const sending = input !== undefined && child.stdin !== null ? pipeline(input, child.stdin) : undefined;
  try {
    const [[exitCode]] = await Promise.all([
      once(child, "close") as Promise<[number | null]>,
      child.stdout === null ? undefined : pipeline(child.stdout, output),
      // kubectl that fails reads no input. Its own message is the better one.
      sending?.catch(() => undefined),
    ]);
    return { exitCode: exitCode ?? 1, errorOutput };
  } catch (error) {
    signal.throwIfAborted();
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    throw new CliFailure("kubectl is not installed on this machine.", { hints: ["By hand: docs/guides/moving.md"] });
  }
}
