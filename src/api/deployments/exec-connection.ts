import type { Socket } from "node:net";
import type { Principal } from "../../auth/principal.ts";
import { encodeFrame, type Frame, FrameReader } from "../../base/frames.ts";
import type { ExecSession } from "../../compute/compute.ts";
import { ProgramSocket } from "../../compute/program-socket.ts";
import {
  execChannels as channels,
  type ExecEnd,
  ExecStart,
  type ExecStarted,
  execFrameBytesMax,
  TerminalSize,
} from "../../contract/deployments/exec.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { execIdleMs, execKeyCheckMs, execStartTimeoutMs, slowReaderTimeoutMs } from "../../domain/limits.ts";
import { recordExec } from "../../store/deployments/agent-calls.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps, FoundExec } from "../deps.ts";
import { compileValidator } from "../validation/validate.ts";

export interface ExecClient {
  socket: Socket;
  /** Finds the replica beside which the program runs. @throws ApiError `execUnavailable` */
  find(replicaId: string | null): Promise<FoundExec>;
  deployment: DeploymentRow;
  principal: Principal;
  /** @throws ApiError when the key no longer admits its holder */
  recheck(): Promise<void>;
}

type ExecDeps = Pick<ApiDeps, "db" | "logger">;

/** One connection of a command line to a program beside an agent. It ends with the program, its client, or at a limit. */
export class ExecConnection {
  readonly #deps: ExecDeps;
  readonly #client: ExecClient;
  readonly #reader = new FrameReader(execFrameBytesMax);
  readonly #closed: Promise<void>;
  readonly #startTimer: NodeJS.Timeout;
  readonly #idleTimer: NodeJS.Timeout;
  readonly #keyTimer: NodeJS.Timeout;
  /** Frames that arrived with the first one, while the program starts. More stays in the kernel until then. */
  #early: Frame[] | undefined;
  #session: ExecSession | undefined;
  #program: ProgramSocket | undefined;
  #hasEnded = false;

  constructor(deps: ExecDeps, client: ExecClient) {
    this.#deps = deps;
    this.#client = client;
    const { socket, recheck } = client;
    this.#closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    this.#startTimer = setTimeout(() => this.#stop("No program was named in time."), execStartTimeoutMs);
    const idleText = `The program had neither input nor output for ${execIdleMs / 60_000} minutes.`;
    this.#idleTimer = setTimeout(() => this.#stop(idleText), execIdleMs);
    this.#keyTimer = setInterval(() => {
      this.#keepAlive();
      recheck().catch((error: unknown) => {
        // While the database is unreachable, nothing can be checked, so the program continues.
        if (error instanceof ApiError) this.#stop("The key was revoked, has expired, or may not do this any more.");
      });
    }, execKeyCheckMs);
  }

  /** Serves the connection until it is closed, and then ends the program. */
  async serve(): Promise<void> {
    const { socket } = this.#client;
    for (const event of ["error", "end"]) socket.on(event, () => socket.destroy());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.resume();
    await this.#closed;
    for (const timer of [this.#startTimer, this.#idleTimer, this.#keyTimer]) clearTimeout(timer);
    await this.#kill();
  }

  async #kill(): Promise<void> {
    const { deployment } = this.#client;
    await this.#session?.kill().catch((error: unknown) => {
      const fields = { deployment_id: deployment.id, error: describeError(error) };
      this.#deps.logger.warn(fields, "ending a program beside an agent failed");
    });
  }

  #receive(chunk: Buffer): void {
    if (this.#hasEnded) return;
    this.#idleTimer.refresh();
    try {
      for (const frame of this.#reader.read(chunk)) this.#take(frame);
    } catch (error) {
      this.#stop((error as Error).message); // what the client sent is wrong
    }
  }

  #take(frame: Frame): void {
    const { channel, payload } = frame;
    const program = this.#program;
    if (program === undefined) {
      if (this.#early !== undefined) this.#early.push(frame);
      else if (channel === channels.start) this.#start(parse<ExecStart>(checkStart, payload));
      return;
    }
    if (channel === channels.resize) void program.resize(parse<TerminalSize>(checkSize, payload));
    if (channel === channels.input) program.input(payload);
  }

  /** Proxies close quiet connections, and a connection that is not read is found broken only by writing to it. */
  #keepAlive(): void {
    const { socket } = this.#client;
    if (this.#session !== undefined && socket.writable && socket.writableLength === 0)
      socket.write(encodeFrame(channels.alive, ""));
  }

  #start(start: ExecStart): void {
    const { socket } = this.#client;
    clearTimeout(this.#startTimer);
    this.#early = [];
    socket.pause();
    this.#run(start).catch((error: unknown) => this.#fail(error));
  }

  async #run({ argv, terminal, replica_id }: ExecStart): Promise<void> {
    const { db } = this.#deps;
    const { socket, deployment, principal, find } = this.#client;
    const { replicaId, start } = await find(replica_id ?? null);
    const { organizationId, actor } = principal;
    // Before the start: a program that cannot be recorded does not run.
    await recordExec(db, deployment, { organizationId, actor, program: programOf(argv), replicaId });
    if (this.#hasEnded || socket.destroyed) return;
    const session = await start({ argv, terminal: terminal ?? null });
    this.#session = session;
    if (this.#hasEnded || socket.destroyed) return this.#kill();
    const program = new ProgramSocket(socket, session, () => this.#idleTimer.refresh());
    this.#program = program;
    socket.resume();
    for (const frame of this.#early ?? []) this.#take(frame);
    this.#send(channels.started, { replica_id: replicaId, has_terminal: session.hasTerminal } satisfies ExecStarted);
    this.#end({ exit_code: await program.copyOutput(), message: null });
  }

  #fail(error: unknown): void {
    if (this.#hasEnded || this.#client.socket.destroyed) return;
    const isOurs = error instanceof ApiError;
    const fields = { deployment_id: this.#client.deployment.id, error: describeError(error) };
    if (!isOurs) this.#deps.logger.warn(fields, "running a program beside an agent failed");
    this.#stop(isOurs ? error.message : "The server could not run the program. Its log has the reason.");
  }

  #stop(message: string): void {
    this.#end({ exit_code: null, message });
  }

  /** Ends the program at once, and the connection when the client has read everything. */
  #end(answer: ExecEnd): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const { socket } = this.#client;
    this.#send(channels.end, answer);
    socket.end();
    // Input that nothing reads any more is discarded: the kernel resets a connection with unread bytes, and output is lost.
    socket.resume();
    setTimeout(() => socket.destroy(), slowReaderTimeoutMs).unref();
    void this.#kill();
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
const programOf = ([program = ""]: readonly string[]) =>
  program
    .slice(program.lastIndexOf("/") + 1)
    .slice(0, 100)
    .toWellFormed();
