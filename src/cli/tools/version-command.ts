import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { clientVersion } from "../version.ts";

/** Long enough for a distant server, short enough for a call without a server. */
const askTimeoutMs = 2_000;

/** npm itself starts in half a second. */
const registryTimeoutMs = 10_000;

/** Prints the version of this program, and that of the server if it answers. With `--check`, also the newest one in the registry. */
export async function version(session: Session, _: string[], options: { check?: boolean }): Promise<void> {
  const client = await session.client();
  const [info, newest] = await Promise.all([
    client.getInfo({}, { deadlineMs: askTimeoutMs, signal: session.signal }).catch(() => null),
    options.check ? newestVersion(session) : undefined,
  ]);
  const client_ = clientVersion();
  const checked = newest === undefined ? {} : { newest };
  const answer = { client: client_, server: info?.version ?? null, node: process.versions.node, ...checked };
  const { url } = await session.connection();
  session.answer(answer, () =>
    [
      `pierhead ${client_}`,
      info === null ? `server   none at ${url}` : `server   ${info.version} at ${url}`,
      `node     ${process.versions.node}`,
      ...(newest === undefined ? [] : [`newest   ${newest ?? "unknown: the registry has no answer"}`]),
    ].join("\n"),
  );
  if (info !== null && !isSameLine(info.version, client_)) {
    session.terminal.say("The client and the server have different versions. Some commands may not work.");
  }
}

/** Returns the newest published version, or null without an answer. Calls npm, which knows the user's registry and proxy. */
async function newestVersion({ context, signal }: Session): Promise<string | null> {
  try {
    const npm = process.platform === "win32" ? "npm.cmd" : "npm";
    const options = { env: context.env as NodeJS.ProcessEnv, signal, timeout: registryTimeoutMs };
    const { stdout } = await promisify(execFile)(npm, ["view", "pierhead", "version"], options);
    return /^\d+\.\d+\.\d+[\w.-]*$/.test(stdout.trim()) ? harmless(stdout.trim()) : null;
  } catch {
    signal.throwIfAborted();
    return null;
  }
}

/** Returns whether two versions are compatible: equal major version, and before 1.0 also equal minor version. */
function isSameLine(a: string, b: string): boolean {
  const line = (version: string) =>
    version
      .split(".")
      .slice(0, version.startsWith("0.") ? 2 : 1)
      .join(".");
  return line(a) === line(b);
}
