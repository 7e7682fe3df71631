import { ApiFailure, ServerUnreachable, WaitTimeout } from "../client/failure.ts";
import type { AsStarted } from "./terminal/started-as.ts";

/** Exit codes of the process, as listed in docs/reference/cli.md. */
export const exitCodes = { ok: 0, error: 1, cancelled: 2, auth: 4, pending: 8 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Failure of a command: what failed, why, and what to do next. */
export class CliFailure extends Error {
  override readonly name = "CliFailure";
  readonly exitCode: ExitCode;
  /** The full reason, which may include log lines. */
  readonly because: string | null;
  /** Next steps for the user, one per line. */
  readonly hints: readonly string[];
  readonly requestId: string | null;
  /** Nothing went wrong: the user cancelled, or the server continues the work. */
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

/** The exit code of a program that `exec` or `shell` ran. The command exits with it and prints nothing. */
export class ProgramExit extends Error {
  override readonly name = "ProgramExit";
  readonly code: number;

  constructor(code: number) {
    super(`exit code ${code}`);
    this.code = code;
  }
}

/** Returns the `error` object of a `--json` answer, with commands as the user starts them. */
export function describeFailure(failure: CliFailure, asStarted: AsStarted): Record<string, unknown> {
  const { message, because, hints, requestId, exitCode } = failure;
  return { message, because, hints: hints.map(asStarted), request_id: requestId, exit_code: exitCode };
}

/** Creates a failure for invalid arguments, with exit code 2. */
export function usageFailure(what: string, ...hints: string[]): CliFailure {
  return new CliFailure(what, { exitCode: exitCodes.cancelled, hints });
}

/** Converts any thrown value to a failure that can be printed. */
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
  const { status, detail, requestId } = failure;
  const isAuth = status === 401 || status === 403;
  return new CliFailure(`The server refused this (${status}).`, {
    exitCode: isAuth ? exitCodes.auth : exitCodes.error,
    because: inWords(detail),
    hints: hintsFor(failure),
    requestId,
  });
}

/** Options that set the fields which a refusal names. */
const options: Readonly<Record<string, string>> = {
  build_command: "--build-command",
  deployment_tier: "--size",
  deployment_type: "--type",
  engine: "--engine",
  image_uri: "--image",
  install_command: "--install-command",
  k8s_namespace: "--namespace",
  langgraph_config_path: "--config",
  listener_id: "--listener",
  listener_selector: "--where",
  repo_ref: "--ref",
  template_id: "--template",
};

/** Names options of the command line instead of fields of the API, and no id that the user did not type. */
function inWords(detail: string): string {
  return detail
    .replaceAll(
      /(['"]?)(?:body\.)?(?:source_config|source_revision_config)\.(?:listener_config\.)?(\w+)\1/g,
      (all, _, field) => (typeof field === "string" ? (options[field] ?? all) : all),
    )
    .replaceAll(/^body\.(\w+):/gm, (_all, field) => `${options[String(field)] ?? field}:`)
    .replace(/^Source (?:revision )?configuration error: (?=--)/, "")
    .replace(/\bfor source 'internal_source'/, "to a directory")
    .replace(/\bfor source 'github'/, "to a git URL")
    .replace(/\bfor source '(?:internal|external)_docker'/, "to an image")
    .replace(/\bfor source 'internal_template'/, "to a template")
    .replaceAll(/\bdeployment ID [0-9a-f-]{36}\b/g, "this deployment");
}

function hintsFor({ status, detail }: ApiFailure): string[] {
  if (detail.includes("requires workspace specification"))
    return ["Set the workspace: --workspace ID, or PIERHEAD_WORKSPACE"];
  if (status === 401) {
    return [
      "Sign in: pierhead login URL",
      "Or set a key: PIERHEAD_API_KEY (sent only to PIERHEAD_URL, if that is set), or --api-key-file FILE",
      "On the server's machine, use the key in its data directory: --data-dir DIR",
    ];
  }
  if (status === 403) return ["This key lacks permission. Use a key with a higher role, or one for this workspace."];
  if (status === 409 && detail.startsWith("A deployment named"))
    return ["A deployment keeps its name until it is deleted: pierhead list --status AWAITING_DELETE"];
  const name = /^'([^']+)' /.exec(detail)?.[1];
  const engine = /\bChange its engine to '(\w+)'/.exec(detail)?.[1];
  if (name !== undefined && engine !== undefined) {
    const lacking = /: set ([A-Z_]+)(?: and ([A-Z_]+))? first\./.exec(detail)?.slice(1).filter(Boolean) ?? [];
    return [
      ...(lacking.length === 0 ? [] : [`Give it a database: pierhead env set ${name} ${lacking.join(" ")}`]),
      `Change the engine:  pierhead change ${name} --engine ${engine}`,
    ];
  }
  const range = /\bScale it to (1-\d+)\./.exec(detail)?.[1];
  const type = /\b[Dd]eploy the source under a new name with type '(\w+)'/.exec(detail)?.[1];
  if (type !== undefined) {
    return [
      ...(name === undefined || range === undefined
        ? []
        : [`Keep one replica at least:  pierhead scale ${name} ${range}`]),
      `Deploy it under a new name: pierhead deploy DIRECTORY --name NEW-NAME --type ${type}`,
    ];
  }
  if (status >= 500) return ["Search the server's log for the request id."];
  return [];
}
