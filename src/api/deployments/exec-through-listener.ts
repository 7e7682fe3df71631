import type { Socket } from "node:net";
import { PassThrough, type Readable, Writable } from "node:stream";
import { drained } from "../../base/drained.ts";
import { encodeFrame, type Frame, FrameReader } from "../../base/frames.ts";
import type { ExecRequest, ExecSession } from "../../compute/compute.ts";
import {
  execChannels as channels,
  type ExecEnd,
  type ExecStart,
  type ExecStarted,
  execFrameBytesMax,
} from "../../contract/deployments/exec.ts";
import { errors } from "../../contract/error.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import type { FoundExec } from "../deps.ts";
import type { Tunnels } from "../listeners/tunnels.ts";

/** Bytes of input in one frame. */
const inputBytesMax = 64 * 1024;

const lost = "The connection to the listener of this agent ended before the program did.";

/**
 * Lets the listener of a deployment find the replica beside which a program can run.
 * @param user connection of the user, with which the program ends
 * @throws ApiError `execUnavailable`
 */
export async function findThroughListener(
  tunnels: Tunnels,
  deployment: DeploymentRow,
  wanted: string | null,
  user: Socket,
): Promise<FoundExec> {
  const { id, slug, listener_id: listenerId } = deployment;
  const order = { deployment_id: id, slug, kind: "exec" as const, replica_id: wanted };
  const { socket, replicaId } = await tunnels.open(listenerId, order, user);
  return { replicaId: replicaId ?? "", start: (request) => new RemoteProgram(socket).start(request) };
}

/** A program that a listener runs, on the server's end of the tunnel. */
class RemoteProgram {
  readonly #socket: Socket;
  readonly #reader = new FrameReader(execFrameBytesMax);
  readonly #started = Promise.withResolvers<ExecStarted>();
  readonly #ended = Promise.withResolvers<number>();
  readonly #output = new PassThrough();
  readonly #errors = new PassThrough();
  #hasEnded = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    // Either is awaited, never both.
    for (const { promise } of [this.#started, this.#ended]) promise.catch(() => {});
    for (const event of ["error", "end"]) socket.on(event, () => socket.destroy());
    socket.on("close", () => this.#fail(lost));
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
  }

  async start({ argv, terminal }: ExecRequest): Promise<ExecSession> {
    const socket = this.#socket;
    if (socket.destroyed) this.#fail(lost);
    socket.write(encodeFrame(channels.start, JSON.stringify({ argv: [...argv], terminal } satisfies ExecStart)));
    socket.resume();
    const { has_terminal: hasTerminal } = await this.#started.promise;
    return {
      hasTerminal,
      input: this.#input(),
      output: this.#output,
      errors: hasTerminal ? null : this.#errors,
      resize: async (size) => void socket.write(encodeFrame(channels.resize, JSON.stringify(size))),
      ended: this.#ended.promise,
      // The listener ends the program with the connection.
      kill: async () => void socket.destroy(),
    };
  }

  #input(): Writable {
    const socket = this.#socket;
    const input = new Writable({
      highWaterMark: inputBytesMax,
      write(chunk: Buffer, _encoding, done) {
        let isFull = false;
        for (let at = 0; at < chunk.length; at += inputBytesMax)
          isFull = !socket.write(encodeFrame(channels.input, chunk.subarray(at, at + inputBytesMax)));
        if (isFull) void drained(socket).then(() => done());
        else done();
      },
      final(done) {
        if (socket.writable) socket.write(encodeFrame(channels.input, ""));
        done();
      },
    });
    socket.on("close", () => input.destroy());
    return input;
  }

  /** The listener is a program of a user. Writing what it sends after the end would be an error of the stream, which ends the server. */
  #receive(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.read(chunk)) if (!this.#hasEnded) this.#take(frame);
    } catch {
      this.#socket.destroy(); // what the listener sent is wrong
    }
  }

  #take({ channel, payload }: Frame): void {
    if (channel === channels.started) this.#started.resolve(JSON.parse(payload.toString("utf8")));
    if (channel === channels.output) this.#show(this.#output, payload);
    if (channel === channels.errors) this.#show(this.#errors, payload);
    if (channel !== channels.end) return;
    const { exit_code: exitCode, message } = JSON.parse(payload.toString("utf8")) as ExecEnd;
    if (!Number.isInteger(exitCode)) return void this.#fail(typeof message === "string" ? message : lost);
    this.#ended.resolve(exitCode as number);
    this.#finish();
  }

  #show(to: PassThrough, payload: Buffer): void {
    const socket = this.#socket;
    if (to.write(payload) || socket.isPaused()) return;
    socket.pause();
    void drained(to).then(() => socket.resume());
  }

  #fail(message: string): void {
    const error = errors.execUnavailable(message);
    this.#started.reject(error);
    this.#ended.reject(error);
    this.#finish();
  }

  #finish(): void {
    this.#hasEnded = true;
    for (const stream of [this.#output, this.#errors] satisfies Readable[]) stream.end();
  }
}
