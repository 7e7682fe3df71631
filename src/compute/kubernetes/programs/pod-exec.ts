import { randomUUID } from "node:crypto";
import { PassThrough, Writable } from "node:stream";
import { drained } from "../../../base/drained.ts";
import { ExecRefused, type ExecRequest, type ExecSession } from "../../compute.ts";
import { killScript } from "../../kill-script.ts";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import { pathOf } from "../api/kinds.ts";
import { ChannelSocket } from "./web-socket.ts";

/** A container of a pod. */
export interface PodContainer {
  namespace: string;
  name: string;
  container: string;
}

const channels = { input: 0, output: 1, errors: 2, status: 3, resize: 4, close: 255 } as const;

/** The fifth version can end the input. Kubernetes 1.30 and newer have it. */
const protocols = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/** Limit for programs of our own in a container. A busy node takes several seconds to start one. */
const ownTimeoutMs = 30_000;

/**
 * Starts a program in a container through the API server. Nothing there ends a program, so it gets a mark in its environment, with
 * which the shell of the container finds it, as in Docker. An image without `env` cannot set the mark.
 * @throws ExecRefused when the cluster refuses it
 */
export async function openPodExec(
  api: ApiServer,
  container: PodContainer,
  { argv, terminal }: ExecRequest,
): Promise<ExecSession> {
  const mark = `PIERHEAD_EXEC_ID=${randomUUID()}`;
  const variables = [mark, ...(terminal === null ? [] : ["TERM=xterm-256color"])];
  const isMarked = await runs(api, container, ["env"]);
  const session = await open(api, container, isMarked ? ["env", ...variables, ...argv] : [...argv], terminal !== null);
  let killing: Promise<void> | undefined;
  const kill = async () => {
    // Interrupt and end of input, as a user would type them, for containers without a shell.
    if (terminal !== null) session.connection.send(channels.input, "\u0003\u0004");
    else session.endInput();
    if (isMarked) await runs(api, container, ["sh", "-c", killScript, "sh", mark]).catch(() => {});
    session.connection.close();
    for (const stream of [session.output, session.errors]) stream.destroy();
  };
  const resize = async ({ columns, rows }: { columns: number; rows: number }) =>
    void session.connection.send(channels.resize, JSON.stringify({ Width: columns, Height: rows }));
  if (terminal !== null) await resize(terminal);
  return {
    hasTerminal: terminal !== null,
    input: session.input,
    output: session.output,
    errors: terminal === null ? session.errors : null,
    resize,
    ended: session.ended,
    kill() {
      killing ??= kill();
      return killing;
    },
  };
}

/** Runs a program without input and output. @returns whether it ended well @throws ExecRefused as `openPodExec` */
async function runs(api: ApiServer, container: PodContainer, argv: string[]): Promise<boolean> {
  const { connection, output, errors, endInput, ended } = await open(api, container, argv, false);
  for (const stream of [output, errors]) stream.resume();
  endInput();
  const timer = setTimeout(() => connection.close(), ownTimeoutMs);
  const exitCode = await ended.catch(() => null);
  clearTimeout(timer);
  connection.close();
  return exitCode === 0;
}

interface Status {
  status: string;
  reason?: string;
  message?: string;
  details?: { causes?: { reason?: string; message?: string }[] };
}

async function open(api: ApiServer, { namespace, name, container }: PodContainer, argv: string[], isTerminal: boolean) {
  const query = new URLSearchParams([
    ...argv.map((one) => ["command", one]),
    ...[
      ["container", container],
      ["stdin", "true"],
      ["stdout", "true"],
    ],
    ...[
      ["stderr", String(!isTerminal)],
      ["tty", String(isTerminal)],
    ],
  ] as [string, string][]);
  const path = `${pathOf("Pod", namespace, name)}/exec`;
  const opened = await api
    .openWebSocket(path, { query, protocols, signal: new AbortController().signal })
    .catch((error: unknown) => {
      throw error instanceof KubeError ? new ExecRefused(explain(error, name)) : error;
    });
  const [output, errors] = [new PassThrough(), new PassThrough()];
  const { promise: ended, resolve, reject } = Promise.withResolvers<number>();
  ended.catch(() => {});
  const finish = () => {
    for (const stream of [output, errors]) stream.end();
  };
  const connection = new ChannelSocket(opened.socket, (channel, bytes) => {
    if (channel === channels.status) {
      const exitCode = exitCodeOf(JSON.parse(bytes.toString("utf8")) as Status);
      if (typeof exitCode === "number") resolve(exitCode);
      else reject(new ExecRefused(exitCode));
      return finish();
    }
    const to = channel === channels.output ? output : channel === channels.errors ? errors : null;
    if (to === null || to.destroyed || to.write(bytes) || opened.socket.isPaused()) return;
    opened.socket.pause();
    void drained(to).then(() => opened.socket.resume());
  });
  opened.socket.once("close", () => {
    reject(new ExecRefused("The connection to the cluster ended before the program did."));
    finish();
  });
  const endInput = () => {
    if (opened.protocol === protocols[0]) connection.send(channels.close, Buffer.of(channels.input));
  };
  const input = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (connection.send(channels.input, chunk)) return done();
      void drained(opened.socket).then(() => done());
    },
    final(done) {
      endInput();
      done();
    },
  });
  opened.socket.once("close", () => input.destroy());
  return { connection, input, endInput, output, errors, ended };
}

/** Returns the exit code of a program, or why it did not run. */
function exitCodeOf({ status, reason, message = "", details }: Status): number | string {
  if (status === "Success") return 0;
  const code = Number(details?.causes?.find((cause) => cause.reason === "ExitCode")?.message);
  if (reason === "NonZeroExitCode" && Number.isInteger(code)) return code;
  return `The cluster could not run the program: ${message}`;
}

/** Says why the cluster refuses a connection to a pod. */
export function explain({ status, message }: KubeError, pod: string): string {
  if (status === 403)
    return "The listener may not connect to pods of its cluster. Allow it with `programs: true` among the values of its chart, or use kubectl.";
  if (status === 404) return `The replica ${pod} does not run any more.`;
  return `The cluster refuses it: ${message}`;
}
