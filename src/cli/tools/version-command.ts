import type { Session } from "../session.ts";
import { clientVersion } from "../version.ts";

/** Long enough for a distant server, short enough for a call without a server. */
const askTimeoutMs = 2_000;

/** Prints the version of this program, and that of the server if it answers. */
export async function version(session: Session): Promise<void> {
  const client = await session.client();
  const info = await client.getInfo({}, { deadlineMs: askTimeoutMs, signal: session.signal }).catch(() => null);
  const client_ = clientVersion();
  const answer = { client: client_, server: info?.version ?? null, node: process.versions.node };
  const { url } = await session.connection();
  session.answer(answer, () =>
    [
      `pierhead ${client_}`,
      info === null ? `server   none at ${url}` : `server   ${info.version} at ${url}`,
      `node     ${process.versions.node}`,
    ].join("\n"),
  );
  if (info !== null && !isSameLine(info.version, client_)) {
    session.terminal.say("The client and the server have different versions. Some commands may not work.");
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
