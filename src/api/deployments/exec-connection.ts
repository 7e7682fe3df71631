import { once } from "node:events";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { Principal } from "../../auth/principal.ts";
import { encodeFrame, type Frame, FrameReader } from "../../base/frames.ts";
import type { ExecSession } from "../../compute/compute.ts";
import {
  execChannels as channels,
  type ExecEnd,
  ExecStart,
  type ExecStarted,
  execFrameBytesMax,
  TerminalSize,
} from "../../contract/deployments/exec.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { execIdleMs, execKeyCheckMs, execStartTimeoutMs } from "../../domain/limits.ts";
import { recordExec } from "../../store/deployments/agent-calls.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";
import { compileValidator } from "../validation/validate.ts";

export interface ExecClient {
  socket: Socket;
  deployment: DeploymentRow;
  principal: Principal;
  /** @throws ApiError when the key no longer admits its holder */
  recheck(): Promise<void>;
}

type ExecDeps = Pick<ApiDeps, "db" | "openExec" | "logger">;

/** One connection of a command line to a program beside an agent. It ends with the program, its client, or at a limit. */
export class ExecConnection {
  readonly #deps: ExecDeps;
  readonly #client: ExecClient;
  readonly #reader = new FrameReader(execFrameBytesMax);
  readonly #closed: Promise<void>;
  readonly #startTimer: NodeJS.Timeout;
  readonly #idleTimer: NodeJS.Timeout;
  readonly #keyTimer: NodeJS.Timeout;
  #isStarting = false;
  #session: ExecSession | undefined;

  constructor(deps: ExecDeps, client: ExecClient) {
    this.#deps = deps;
    this.#client = client;
    const { socket, recheck } = client;
    this.#closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    this.#startTimer = setTimeout(() => this.#stop("No program was named in time."), execStartTimeoutMs);
    const idleText = `The program had neither input nor output for ${execIdleMs / 60_000} minutes.`;
    this.#idleTimer = setTimeout(() => this.#stop(idleText), execIdleMs);
    this.#keyTimer = setInterval(() => {
      recheck().catch(() => this.#stop("The key was revoked, has expired, or may not do this any more."));
    }, execKeyCheckMs);
  }

  /** Serves the connection until it is closed, and then ends the program. @param head bytes that have arrived already */
  async serve(head: Buffer): Promise<void> {
    const { socket, deployment } = this.#client;
    for (const event of ["error", "end"]) socket.on(event, () => socket.destroy());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    if (head.length > 0) this.#receive(head);
    socket.resume();
    await this.#closed;
    for (const timer of [this.#startTimer, this.#idleTimer, this.#keyTimer]) clearTimeout(timer);
    await this.#session?.kill().catch((error: unknown) => {
      const fields = { deployment_id: deployment.id, error: describeError(error) };
      this.#deps.logger.warn(fields, "ending a program beside an agent failed");
    });
  }

  #receive(chunk: Buffer): void {
    this.#idleTimer.refresh();
    try {
      for (const frame of this.#reader.read(chunk)) this.#take(frame);
    } catch (error) {
      this.#fail(error);
    }
  }

  #take({ channel, payload }: Frame): void {
    const { socket } = this.#client;
    if (channel === channels.start && !this.#isStarting) {
      this.#isStarting = true;
      this.#run(parse<ExecStart>(checkStart, payload)).catch((error: unknown) => this.#fail(error));
    }
    const session = this.#session;
    if (session === undefined) return;
    if (channel === channels.resize) session.resize(parse<TerminalSize>(checkSize, payload));
    if (channel !== channels.input) return;
    if (payload.length === 0) session.input.end();
    else if (!session.input.write(payload)) {
      socket.pause();
      session.input.once("drain", () => socket.resume());
    }
  }

  async #run({ argv, terminal, replica_id }: ExecStart): Promise<void> {
    clearTimeout(this.#startTimer);
    const { db, openExec } = this.#deps;
    const { socket, deployment, principal } = this.#client;
    const { replicaId, session } = await openExec(deployment.id, replica_id ?? null, {
      argv,
      terminal: terminal ?? null,
    });
    if (socket.destroyed) return session.kill();
    this.#session = session;
    const { organizationId, actor } = principal;
    await recordExec(db, deployment, { organizationId, actor, program: programOf(argv), replicaId });
    this.#send(channels.started, { replica_id: replicaId, has_terminal: session.hasTerminal } satisfies ExecStarted);
    const { output, errors: failures, ended } = session;
    const copies = [this.#copy(output, channels.output), failures && this.#copy(failures, channels.errors)];
    const exitCode = await ended;
    await Promise.all(copies);
    this.#end({ exit_code: exitCode, message: null });
  }

  async #copy(from: Readable, channel: number): Promise<void> {
    const { socket } = this.#client;
    for await (const chunk of from) {
      if (socket.destroyed) return;
      this.#idleTimer.refresh();
      if (!socket.write(encodeFrame(channel, chunk as Buffer)))
        await Promise.race([once(socket, "drain"), this.#closed]);
    }
  }

  #fail(error: unknown): void {
    const isOurs = error instanceof ApiError;
    const fields = { deployment_id: this.#client.deployment.id, error: describeError(error) };
    if (!isOurs) this.#deps.logger.warn(fields, "running a program beside an agent failed");
    this.#stop(isOurs ? error.message : "The server could not run the program. Its log has the reason.");
  }

  #stop(message: string): void {
    this.#end({ exit_code: null, message });
  }

  #end(answer: ExecEnd): void {
    this.#send(channels.end, answer);
    this.#client.socket.end();
    // A client that does not close its side would keep the program.
    setTimeout(() => this.#client.socket.destroy(), 1_000).unref();
  }

  #send(channel: number, value: ExecStarted | ExecEnd): void {
    const { socket } = this.#client;
    if (socket.writable) socket.write(encodeFrame(channel, JSON.stringify(value)));
  }
}

const checkStart = compileValidator(ExecStart, "body");
const checkSize = compileValidator(TerminalSize, "body");

/** @throws ApiError 422 */
function parse<T>(check: ReturnType<typeof compileValidator>, payload: Buffer): T {
  let json: unknown;
  try {
    json = JSON.parse(payload.toString("utf8"));
  } catch {
    json = null;
  }
  const { value, problems } = check(json);
  if (problems.length > 0) throw errors.invalidRequest(problems);
  return value as T;
}

/** Name of the program without its directory, for the audit log. */
const programOf = ([program = ""]: readonly string[]) => program.slice(program.lastIndexOf("/") + 1).slice(0, 100);
