import { readText } from "../base/read-text.ts";
/** Projects of a tracing back end, by name and id. */
export interface TracingProjects {
  /** Id of the project of exactly this name; null: there is none. */
  find(name: string, signal: AbortSignal): Promise<string | null>;
  /** Makes the project, or finds the one that is there. @returns its id, which may be another than the wanted one. */
  create(project: { id: string; name: string }, signal: AbortSignal): Promise<string>;
  /** A project that is gone already is no error. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** The back end did not do it. The message is for users and names no key. */
export class TracingFailure extends Error {
  override readonly name = "TracingFailure";
}

/** An answer lists one project at most; more is something else than what was asked. */
const answerBytesMax = 1024 * 1024;

/** A back end that needs longer is as good as away: somebody waits for this answer. */
const callTimeoutMs = 5_000;

/**
 * Projects of a LangSmith-compatible server, which calls them sessions.
 * Every call throws TracingFailure, or the signal's reason when it is aborted.
 */
export function langsmithProjects(
  backend: { url: string; key: string | null; workspaceId: string | null },
  timeoutMs = callTimeoutMs,
): TracingProjects {
  const headers = {
    accept: "application/json",
    ...(backend.key !== null && { "x-api-key": backend.key }),
    ...(backend.workspaceId !== null && { "x-tenant-id": backend.workspaceId }),
  };

  async function call(method: string, path: string, body: object | null, signal: AbortSignal): Promise<Answer> {
    const deadline = AbortSignal.timeout(timeoutMs);
    try {
      const response = await fetch(`${backend.url}${path}`, {
        method,
        headers: body === null ? headers : { ...headers, "content-type": "application/json" },
        body: body === null ? null : JSON.stringify(body),
        // The key must not travel to another host.
        redirect: "error",
        signal: AbortSignal.any([signal, deadline]),
      });
      return {
        status: response.status,
        text: response.body === null ? "" : await readText(response.body, answerBytesMax),
      };
    } catch (error) {
      signal.throwIfAborted();
      const because = deadline.aborted ? `did not answer within ${timeoutMs / 1_000} s` : "could not be reached";
      throw new TracingFailure(`The tracing back end ${backend.url} ${because}.`, { cause: error });
    }
  }

  async function find(name: string, signal: AbortSignal): Promise<string | null> {
    const answer = await call("GET", `/sessions?${new URLSearchParams({ name })}`, null, signal);
    const found = answer.status === 200 ? parse(answer.text) : null;
    if (!Array.isArray(found)) throw refused(answer, "list its projects");
    const [exact] = found.filter((one: { name?: unknown } | null) => one?.name === name);
    return idIn(exact);
  }

  async function create({ id, name }: { id: string; name: string }, signal: AbortSignal): Promise<string> {
    const taken = await send({ id, name }, signal);
    if (taken.id !== null) return taken.id;
    const there = await find(name, signal);
    if (there !== null) return there;
    // It is the id that is taken, by a project that was renamed or is still being deleted there.
    const made = await send({ name }, signal);
    if (made.id === null) throw refused(made.answer, `make the project '${name}'`);
    return made.id;
  }

  async function send(
    project: { id?: string; name: string },
    signal: AbortSignal,
  ): Promise<{ id: string | null; answer: Answer }> {
    const answer = await call("POST", "/sessions", project, signal);
    if (answer.status === 409) return { id: null, answer };
    const id = answer.status < 300 ? idIn(parse(answer.text)) : null;
    if (id === null) throw refused(answer, `make the project '${project.name}'`);
    return { id, answer };
  }

  async function remove(id: string, signal: AbortSignal): Promise<void> {
    const answer = await call("DELETE", `/sessions/${id}`, null, signal);
    if (answer.status >= 300 && answer.status !== 404) throw refused(answer, "delete the project");
  }

  const refused = ({ status, text }: Answer, what: string) =>
    new TracingFailure(`The tracing back end ${backend.url} answered ${status} when it was to ${what}${saidIn(text)}.`);

  return { find, create, remove };
}

interface Answer {
  status: number;
  text: string;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function idIn(project: unknown): string | null {
  const { id } = (project ?? {}) as { id?: unknown };
  return typeof id === "string" && uuid.test(id) ? id.toLowerCase() : null;
}

/** What the server itself says, as one short line. */
function saidIn(text: string): string {
  const { detail } = (parse(text) ?? {}) as { detail?: unknown };
  return typeof detail === "string" ? `: ${detail.replace(/\s+/g, " ").slice(0, 200)}` : "";
}
