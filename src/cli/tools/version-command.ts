import type { Session } from "../session.ts";
import { clientVersion } from "../version.ts";

/** Long enough for a server on another continent, short enough to type `version` without one. */
const askTimeoutMs = 2_000;

/** This program's version, and the server's if one answers. */
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
    session.terminal.say(`Client and server are of different versions: some commands may not fit.`);
  }
}

/** Before 1.0 a minor version may break, after it a major one. */
function isSameLine(a: string, b: string): boolean {
  const line = (version: string) =>
    version
      .split(".")
      .slice(0, version.startsWith("0.") ? 2 : 1)
      .join(".");
  return line(a) === line(b);
}
