import { ApiFailure, ServerUnreachable, WaitTimeout } from "../client/failure.ts";

/** What the process answers to its caller; docs/reference/cli.md lists them. */
export const exitCodes = { ok: 0, error: 1, cancelled: 2, auth: 4, pending: 8 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Why a command ended without doing what it was asked: what failed, why, and what to try. */
export class CliFailure extends Error {
  override readonly name = "CliFailure";
  readonly exitCode: ExitCode;
  /** The reason in full, lines of a log included. */
  readonly because: string | null;
  /** Commands or changes that help, one a line. */
  readonly hints: readonly string[];
  readonly requestId: string | null;
  /** Nothing went wrong: the user stopped, or the work goes on elsewhere. */
  readonly isNotice: boolean;

  constructor(what: string, more: Partial<Omit<CliFailure, keyof Error>> = {}) {
    super(what);
    this.isNotice = more.isNotice ?? more.exitCode === exitCodes.pending;
    this.exitCode = more.exitCode ?? exitCodes.error;
    this.because = more.because ?? null;
    this.hints = more.hints ?? [];
    this.requestId = more.requestId ?? null;
  }
}

/** The `error` of every `--json` answer. */
export function describeFailure(failure: CliFailure): Record<string, unknown> {
  const { message, because, hints, requestId, exitCode } = failure;
  return { message, because, hints, request_id: requestId, exit_code: exitCode };
}

/** A wrong way to call a command; exit code 2. */
export function usageFailure(what: string, ...hints: string[]): CliFailure {
  return new CliFailure(what, { exitCode: exitCodes.cancelled, hints });
}

/** Makes something printable of whatever was thrown. */
export function explainFailure(error: unknown, signal: AbortSignal): CliFailure {
  if (error instanceof CliFailure) return error;
  if (signal.aborted) return new CliFailure("Cancelled.", { exitCode: exitCodes.cancelled, isNotice: true });
  if (error instanceof ApiFailure) return explainRefusal(error);
  if (error instanceof ServerUnreachable) {
    const hints = ["Start a server:   pierhead up", "Find the problem: pierhead doctor"];
    return new CliFailure(error.message, { hints });
  }
  if (error instanceof WaitTimeout) return new CliFailure(error.message, { exitCode: exitCodes.pending });
  return new CliFailure(error instanceof Error ? error.message : String(error));
}

function explainRefusal(failure: ApiFailure): CliFailure {
  const { status, detail, requestId, call } = failure;
  const isAuth = status === 401 || status === 403;
  return new CliFailure(`${call} was refused (${status}).`, {
    exitCode: isAuth ? exitCodes.auth : exitCodes.error,
    because: detail,
    hints: hintsFor(failure),
    requestId,
  });
}

function hintsFor({ status, detail }: ApiFailure): string[] {
  if (detail.includes("requires workspace specification"))
    return ["Name the workspace: --workspace ID, or PIERHEAD_WORKSPACE"];
  if (status === 401) {
    return [
      "Give a key: PIERHEAD_API_KEY, or --api-key-file FILE",
      "On the server's machine the key of its data directory is used: --data-dir DIR",
    ];
  }
  if (status === 403) return ["This key may not do that: use one with a higher role, or of the right workspace."];
  if (status === 409 && detail.startsWith("A deployment named"))
    return ["One that is being deleted keeps its name: pierhead list --status AWAITING_DELETE"];
  if (status >= 500) return ["The server's log says more; search it for the request id."];
  return [];
}
