import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { awaitUpgrade } from "../../base/await-upgrade.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";

/** A listener may take 15 s to open its side. */
const connectTimeoutMs = 30_000;

/** What a connection to an agent is for. */
interface WantedConnection {
  path: string;
  protocol: string;
  /** Beginning of the failure when the server refuses it. */
  refused: string;
}

/** Opens a connection to an agent through the server. @throws CliFailure with the server's reason */
export async function openConnection(
  session: Session,
  deploymentId: string,
  wanted: WantedConnection,
): Promise<Socket> {
  const { url, apiKey, workspaceId } = await session.connection();
  // An import of node:http would load `fetch`.
  const { request } = process.getBuiltinModule(url.startsWith("https:") ? "node:https" : "node:http");
  const sent = request(`${url}/v2/deployments/${deploymentId}/${wanted.path}`, {
    signal: session.signal,
    headers: {
      ...{ connection: "Upgrade", upgrade: wanted.protocol },
      ...(apiKey !== undefined && { "x-api-key": apiKey }),
      ...(workspaceId !== undefined && { "x-tenant-id": workspaceId }),
    },
  });
  sent.end();
  const { socket } = await awaitUpgrade(sent, {
    timeoutMs: connectTimeoutMs,
    late: "The server did not answer.",
    refused: (answer) => explain(answer, wanted),
  });
  return socket;
}

/** Returns why the server refused. */
async function explain(answer: IncomingMessage, { refused }: WantedConnection): Promise<CliFailure> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  const status = answer.statusCode ?? 0;
  let because: string;
  try {
    because = String((JSON.parse(Buffer.concat(chunks).toString("utf8")) as { detail?: unknown }).detail);
  } catch {
    because = "The answer does not come from Pierhead. A proxy on the way may not let connections be upgraded.";
  }
  const isAuth = status === 401 || status === 403;
  const hints = status === 401 ? ["Sign in: pierhead login URL"] : [];
  const exitCode = isAuth ? exitCodes.auth : exitCodes.error;
  return new CliFailure(`${refused} (${status}).`, { because, hints, exitCode });
}
