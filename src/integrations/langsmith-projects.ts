import { readText } from "../base/read-text.ts";
/** Projects of a tracing backend, by name and id. */
export interface TracingProjects {
  /** Returns the id of the project with exactly this name, or null. */
  find(name: string, signal: AbortSignal): Promise<string | null>;
  /** Creates the project, or finds an existing one. @returns Its id, which may differ from the desired one. */
  create(project: { id: string; name: string }, signal: AbortSignal): Promise<string>;
  /** Deletes a project. A missing project is not an error. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** Failure of a call to the tracing backend. The message is for users and contains no key. */
export class TracingFailure extends Error {
  override readonly name = "TracingFailure";
}

/** Limit of a response, which lists at most one project. */
const answerBytesMax = 1024 * 1024;

/** Time limit of a call. A user waits for the response, so a slower backend counts as unreachable. */
const callTimeoutMs = 5_000;

/**
 * Returns the projects of a LangSmith-compatible server, which calls them sessions.
 * Every call may throw TracingFailure, or the signal's reason if it is aborted.
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
      throw new TracingFailure(`The tracing backend ${backend.url} ${because}.`, { cause: error });
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
    // The id is in use by a project that was renamed or is still being deleted.
    const made = await send({ name }, signal);
    if (made.id === null) throw refused(made.answer, `create the project '${name}'`);
    return made.id;
  }

  async function send(
    project: { id?: string; name: string },
    signal: AbortSignal,
  ): Promise<{ id: string | null; answer: Answer }> {
    const answer = await call("POST", "/sessions", project, signal);
    if (answer.status === 409) return { id: null, answer };
    const id = answer.status < 300 ? idIn(parse(answer.text)) : null;
    if (id === null) throw refused(answer, `create the project '${project.name}'`);
    return { id, answer };
  }

  async function remove(id: string, signal: AbortSignal): Promise<void> {
    const answer = await call("DELETE", `/sessions/${id}`, null, signal);
    if (answer.status >= 300 && answer.status !== 404) throw refused(answer, "delete the project");
  }

  const refused = ({ status, text }: Answer, what: string) =>
    new TracingFailure(`The tracing backend ${backend.url} answered ${status} when asked to ${what}${saidIn(text)}.`);

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

/** Returns the error message of the server as one short line. */
function saidIn(text: string): string {
  const { detail } = (parse(text) ?? {}) as { detail?: unknown };
  return typeof detail === "string" ? `: ${detail.replace(/\s+/g, " ").slice(0, 200)}` : "";
}
