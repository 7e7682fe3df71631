import type { Listener, PatchListener } from "../../contract/listeners/listener.ts";
import type { Session } from "../session.ts";
import { differing } from "./change.ts";
import { asObject, checkTexts, wrong } from "./read-object.ts";
import type { Step } from "./step.ts";

/** A listener as a file declares it. Absent fields stay as they are. */
export interface DeclaredListener {
  namespaces?: string[];
  /** All labels that it has. */
  labels?: Record<string, string>;
  drain?: boolean;
  /** `own`: the level with which the program started. */
  log_level?: NonNullable<PatchListener["log_level"]>;
}

const levels = ["own", "debug", "info", "warn", "error"];

/** Checks the `listeners` of a file. @throws CliFailure that names the field. */
export function checkListeners(value: unknown): Record<string, DeclaredListener> {
  for (const [name, listener] of Object.entries(asObject(value, "listeners"))) {
    const at = `listeners.${name}`;
    const { namespaces, labels, drain, log_level: level, ...others } = asObject(listener, at);
    const [other] = Object.keys(others);
    if (other !== undefined)
      throw wrong(`${at}.${other} is not known. Known are: namespaces, labels, drain, log_level.`);
    const isList = Array.isArray(namespaces) && namespaces.every((one) => typeof one === "string");
    if (namespaces !== undefined && !isList) throw wrong(`${at}.namespaces must be a list of names.`);
    checkTexts(`${at}.labels`, labels);
    if (drain !== undefined && typeof drain !== "boolean") throw wrong(`${at}.drain must be true or false.`);
    if (level !== undefined && !levels.includes(String(level)))
      throw wrong(`${at}.log_level must be one of: ${levels.join(", ")}.`);
  }
  return value as Record<string, DeclaredListener>;
}

/** Returns a step for each listener that is missing, or not as the file declares it. */
export async function listenerSteps(
  session: Session,
  declared: Record<string, DeclaredListener>,
): Promise<{ steps: Step[]; missing: string[] }> {
  const all = Object.keys(declared).length === 0 ? new Map<string, Listener>() : await listenersByName(session);
  const steps = Object.entries(declared).flatMap(([name, wanted]) => {
    const current = all.get(name);
    const fields = differing(current === undefined ? {} : fieldsOf(current), wanted);
    if (current !== undefined && fields.length === 0) return [];
    const action = current === undefined ? ("create" as const) : ("change" as const);
    const change = { name: `listeners.${name}`, action, fields, variables: { set: [], removed: [] } };
    return [{ change, act: current === undefined ? create(session, name, wanted) : patch(current, wanted) }];
  });
  return { steps, missing: Object.keys(declared).filter((name) => !all.has(name)) };
}

/** Discards the new key, because a pipeline must not show it. An enrollment token gives the cluster's operator another one. */
const create =
  ({ terminal }: Session, name: string, { namespaces, labels, ...others }: DeclaredListener): Step["act"] =>
  async (client, signal) => {
    const compute_config = namespaces === undefined ? {} : { k8s_namespaces: namespaces };
    const body = { compute_type: "k8s" as const, compute_id: name, compute_config, ...(labels && { labels }) };
    const { id } = await client.createListener({ body }, { signal });
    if (Object.keys(others).length > 0) await client.patchListener({ listener_id: id, body: others }, { signal });
    terminal.say(`Listener ${name} needs a token to connect: pierhead api POST /v2/listeners/${id}/enrollment`);
    return undefined;
  };

const patch =
  ({ id }: Listener, { namespaces, ...others }: DeclaredListener): Step["act"] =>
  async (client, signal) => {
    const compute_config = namespaces === undefined ? {} : { compute_config: { k8s_namespaces: namespaces } };
    await client.patchListener({ listener_id: id, body: { ...others, ...compute_config } }, { signal });
    return undefined;
  };

/** Returns the declared listeners and fields with what the server has. */
export async function pulledListeners(session: Session, declared: Record<string, DeclaredListener>) {
  if (Object.keys(declared).length === 0) return {};
  const all = await listenersByName(session);
  const found = Object.entries(declared).flatMap(([name, before]) => {
    const current = all.get(name);
    if (current === undefined) return [];
    const fields = Object.entries(fieldsOf(current)).filter(([field, value]) => field in before && value !== null);
    return [[name, Object.fromEntries(fields)]];
  });
  return { listeners: Object.fromEntries(found) as Record<string, DeclaredListener> };
}

const fieldsOf = ({ compute_config: { k8s_namespaces: namespaces }, labels, drain, log_level: level }: Listener) => ({
  ...{ namespaces, labels, drain, log_level: level ?? "own" },
});

async function listenersByName(session: Session): Promise<Map<string, Listener>> {
  const client = await session.client();
  const found = new Map<string, Listener>();
  for await (const one of client.all("listListeners", {}, { signal: session.signal })) found.set(one.compute_id, one);
  return found;
}
