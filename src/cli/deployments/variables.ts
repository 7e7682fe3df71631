import { readFile } from "node:fs/promises";
import path from "node:path";
import type { CallOptions } from "../../client/client.ts";
import type { Deployment, Secret } from "../../contract/deployments/deployment.ts";
import { parseDotenv } from "../../domain/dotenv.ts";
import { reservedSecretNames } from "../../domain/secret-names.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { readStdin } from "../terminal/stdin.ts";
import { count } from "../terminal/text.ts";

/**
 * Reads the variables of a dotenv file, or of stdin for "-". Omits names that the platform sets, and empty values, with a notice,
 * because the example files of agent frameworks contain both.
 */
export async function readVariables(session: Session, file: string): Promise<Secret[]> {
  const { context, terminal } = session;
  let content: string;
  try {
    content = file === "-" ? await readStdin(context) : await readFile(path.resolve(context.cwd, file), "utf8");
  } catch (error) {
    context.signal.throwIfAborted();
    throw usageFailure(`Cannot read the file ${file}: ${(error as Error).message}`);
  }
  const all = parseDotenv(content);
  const reserved = all.filter(({ name }) => reservedSecretNames.has(name));
  if (reserved.length > 0) {
    terminal.say(`Left out, because the platform sets them: ${reserved.map(({ name }) => name).join(", ")}`);
  }
  const empty = all.filter(({ name, value }) => value === "" && !reservedSecretNames.has(name));
  if (empty.length > 0) terminal.say(`Left out, because they are empty: ${empty.map(({ name }) => name).join(", ")}`);
  return all.filter(({ name, value }) => value !== "" && !reservedSecretNames.has(name));
}

/**
 * Changes the variables of a deployment based on the existing ones. The API replaces all variables at once, so a concurrent change
 * could be lost. The request is therefore conditional on the state that was read, and retried if that has changed.
 */
export async function changeVariables<T>(
  session: Session,
  { id }: Pick<Deployment, "id">,
  change: (present: Secret[]) => Secret[],
  send: (secrets: Secret[], call: CallOptions) => Promise<T>,
): Promise<T> {
  const client = await session.client();
  return client.changeAsRead({ deployment_id: id }, ({ secrets }, call) => send(change(secrets), call), session.signal);
}

/** Sends a change that adds variables to the existing ones. Omits the field if there are none to add. */
export function addVariables<T>(
  session: Session,
  deployment: Pick<Deployment, "id">,
  added: readonly Secret[],
  send: (part: { secrets?: Secret[] }, call: CallOptions) => Promise<T>,
): Promise<T> {
  if (added.length === 0) return send({}, { signal: session.signal });
  const change = (present: Secret[]) => mergeVariables(present, added);
  return changeVariables(session, deployment, change, (secrets, call) => send({ secrets }, call));
}

function mergeVariables(present: readonly Secret[], changed: readonly Secret[]): Secret[] {
  const merged = new Map([...present, ...changed].map((secret) => [secret.name, secret]));
  return [...merged.values()];
}

/** Returns the number of variables in a `.env` file as text, or undefined if it has none or cannot be read. */
export async function unsentVariables(file: string): Promise<string | undefined> {
  try {
    const { length } = parseDotenv(await readFile(file, "utf8"));
    return length === 0 ? undefined : count(length, "variable");
  } catch {
    return undefined;
  }
}
