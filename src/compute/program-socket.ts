import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { drained } from "../base/drained.ts";
import { encodeFrame } from "../base/frames.ts";
import { execChannels as channels, type TerminalSize } from "../contract/deployments/exec.ts";
import type { ExecSession } from "./compute.ts";

/** Joins a program beside an agent with a connection that carries frames. A slow side stops the other one's sender. */
export class ProgramSocket {
  readonly #socket: Socket;
  readonly #session: ExecSession;
  readonly #onOutput: () => void;
  #isPaused = false;
  #wantedSize: TerminalSize | undefined;
  #isResizing = false;

  constructor(socket: Socket, session: ExecSession, onOutput: () => void = () => {}) {
    this.#socket = socket;
    this.#session = session;
    this.#onOutput = onOutput;
  }

  /** Passes input on. An empty payload ends it. */
  input(payload: Buffer): void {
    const { input } = this.#session;
    if (!input.writable) return;
    if (payload.length === 0) input.end();
    else if (!input.write(payload) && !this.#isPaused) this.#pauseUntilRead();
  }

  /** Reads nothing more from the connection until the program has read what it has, or reads no more. */
  #pauseUntilRead(): void {
    const socket = this.#socket;
    this.#isPaused = true;
    socket.pause();
    void drained(this.#session.input).then(() => {
      this.#isPaused = false;
      socket.resume();
    });
  }

  /** Only the newest size counts, so a client that sends many costs no memory. */
  async resize(size: TerminalSize): Promise<void> {
    this.#wantedSize = size;
    if (this.#isResizing) return;
    this.#isResizing = true;
    while (this.#wantedSize !== undefined) {
      const next = this.#wantedSize;
      this.#wantedSize = undefined;
      await this.#session.resize(next);
    }
    this.#isResizing = false;
  }

  /** Sends output until the program has ended. @returns its exit code */
  async copyOutput(): Promise<number> {
    const { output, errors, ended } = this.#session;
    const copies = [this.#copy(output, channels.output), errors && this.#copy(errors, channels.errors)];
    // Output of a program that is ended from outside breaks off.
    const [exitCode] = await Promise.all([ended, ...copies.map((copy) => copy?.catch(() => {}))]);
    return exitCode;
  }

  async #copy(from: Readable, channel: number): Promise<void> {
    const socket = this.#socket;
    for await (const chunk of from) {
      if (!socket.writable) return;
      this.#onOutput();
      if (!socket.write(encodeFrame(channel, chunk as Buffer))) await drained(socket);
    }
  }
}
