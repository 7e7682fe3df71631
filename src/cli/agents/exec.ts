import type { Socket } from "node:net";
import { drained } from "../../base/drained.ts";
import { encodeFrame, type Frame, FrameReader } from "../../base/frames.ts";
import {
  execChannels as channels,
  type ExecEnd,
  type ExecStart,
  type ExecStarted,
  execFrameBytesMax,
  execProtocol,
} from "../../contract/deployments/exec.ts";
import { findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, ProgramExit, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { openConnection } from "./agent-connection.ts";

interface ExecOptions {
  replica?: string;
  tty?: boolean;
  shell?: string;
}

/** Runs a program beside an agent. Its exit code becomes that of the command. */
export async function execute(session: Session, [name = "", ...argv]: string[], options: ExecOptions): Promise<void> {
  await runProgram(session, name, argv, options);
}

export async function shell(session: Session, [name = ""]: string[], options: ExecOptions): Promise<void> {
  if (session.options.json) throw usageFailure("A shell has no JSON answer.", "Run one program: pierhead exec");
  await runProgram(session, name, [options.shell ?? "sh"], options);
}

async function runProgram(session: Session, name: string, argv: string[], options: ExecOptions): Promise<void> {
  const { stdin, stdout } = session.context;
  const isJson = session.options.json === true;
  const wantsTerminal = options.tty !== false && !isJson && stdin.isTTY === true && stdout.isTTY === true;
  const deployment = await findDeployment(session, name);
  const wanted = { path: "exec", protocol: execProtocol, refused: "The server refused to run a program" };
  const socket = await openConnection(session, deployment.id, wanted);
  const start: ExecStart = {
    argv,
    ...(wantsTerminal && { terminal: sizeOf(session) }),
    ...(options.replica !== undefined && { replica_id: options.replica }),
  };
  socket.write(encodeFrame(channels.start, JSON.stringify(start)));
  const { replicaId, ended, output, errors } = await follow(session, socket, wantsTerminal);
  const { exit_code: code, message } = ended;
  if (code === null) throw new CliFailure(harmless(message ?? "The server ended the program."));
  session.answer({ replica_id: replicaId, exit_code: code, stdout: output, stderr: errors }, () => undefined);
  if (code !== 0) throw new ProgramExit(code);
}

const sizeOf = ({ context: { stdout } }: Session) => ({ columns: stdout.columns ?? 80, rows: stdout.rows ?? 24 });

/** Copies output until the program ends. With `--json` it keeps the output instead. */
async function follow(session: Session, socket: Socket, wantsTerminal: boolean) {
  const { signal, options, context } = session;
  const kept: { output: Buffer[]; errors: Buffer[] } = { output: [], errors: [] };
  const show = (name: "output" | "errors", payload: Buffer) => {
    const to = name === "output" ? context.stdout : context.stderr;
    if (options.json) kept[name].push(payload);
    else if (!to.write(payload) && !socket.isPaused()) {
      socket.pause();
      void drained(to).then(() => socket.resume());
    }
  };
  const { promise, resolve, reject } = Promise.withResolvers<ExecEnd>();
  let replicaId = "";
  let stopInput = () => {};
  const reader = new FrameReader(execFrameBytesMax);
  const take = ({ channel, payload }: Frame) => {
    if (channel === channels.output) show("output", payload);
    if (channel === channels.errors) show("errors", payload);
    if (channel === channels.end) resolve(JSON.parse(payload.toString()) as ExecEnd);
    if (channel !== channels.started) return;
    const started = JSON.parse(payload.toString()) as ExecStarted;
    replicaId = started.replica_id;
    stopInput = sendInput(session, socket, { wantsTerminal, hasTerminal: started.has_terminal });
  };
  socket.on("data", (chunk: Buffer) => {
    try {
      for (const frame of reader.read(chunk)) take(frame);
    } catch (error) {
      reject(error);
    }
  });
  socket.on("error", reject);
  socket.on("close", () => reject(new CliFailure("The connection to the server ended before the program did.")));
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const ended = await promise;
    return { replicaId, ended, output: textOf(kept.output), errors: textOf(kept.errors) };
  } finally {
    signal.removeEventListener("abort", abort);
    stopInput();
    socket.destroy();
  }
}

/** Bytes of input in one frame. */
const inputBytesMax = 64 * 1024;

/** Sends what the user types, and changes of the terminal's size. @returns a function that ends it */
function sendInput(
  session: Session,
  socket: Socket,
  { wantsTerminal, hasTerminal }: { wantsTerminal: boolean; hasTerminal: boolean },
): () => void {
  const { context, options, terminal } = session;
  const { stdin, stdout } = context;
  const send = (channel: number, payload: Uint8Array | string) => socket.write(encodeFrame(channel, payload));
  const onInput = (chunk: Buffer | string) => {
    const bytes = Buffer.from(chunk);
    for (let at = 0; at < bytes.length; at += inputBytesMax) {
      if (!send(channels.input, bytes.subarray(at, at + inputBytesMax))) stdin.pause();
    }
  };
  const onEnd = () => void send(channels.input, "");
  const onResize = () => void send(channels.resize, JSON.stringify(sizeOf(session)));
  const isRaw = wantsTerminal && hasTerminal;
  if (wantsTerminal && !hasTerminal)
    terminal.say("The server's machine has no Python, so the program gets no terminal: whole lines, without editing.");
  if (options.json) {
    onEnd();
    return () => {};
  }
  if (isRaw) stdin.setRawMode?.(true);
  if (isRaw) stdout.on("resize", onResize);
  stdin.on("data", onInput).on("end", onEnd);
  socket.on("drain", () => stdin.resume());
  stdin.resume();
  return () => {
    stdin.off("data", onInput).off("end", onEnd).pause();
    stdout.off("resize", onResize);
    if (isRaw) stdin.setRawMode?.(false);
  };
}

const textOf = (chunks: Buffer[]) => Buffer.concat(chunks).toString("utf8");
