/** Shapes of the agent API, as far as the console reads them. Agents are foreign servers, so every field may be missing. */

export interface Assistant {
  assistant_id: string;
  graph_id: string;
  name?: string;
  config?: unknown;
  metadata?: Record<string, unknown> | null;
}

/** Returns the end of an id. Ids of agents begin with the time, so threads and runs of one hour begin alike. */
export const endOf = (id: string): string => id.slice(-8);

/** Returns whether people made an assistant. An agent makes one for each of its graphs. */
export const isOwn = ({ metadata }: Assistant): boolean => metadata?.["created_by"] !== "system";

export type ThreadStatus = "idle" | "busy" | "interrupted" | "error";

export interface Thread {
  thread_id: string;
  status?: ThreadStatus;
  created_at?: string;
  updated_at?: string;
  metadata?: Record<string, unknown> | null;
  values?: Values | null;
  interrupts?: Record<string, Interrupt[]> | null;
  config?: { configurable?: { checkpoint_id?: string | null } | null } | null;
  error?: unknown;
}

export type Values = Record<string, unknown>;

export interface Interrupt {
  id?: string;
  value: unknown;
}

export interface Task {
  id: string;
  name: string;
  error?: unknown;
  interrupts?: Interrupt[];
  /** Where the checkpoints of a graph inside of the node are. */
  checkpoint?: Checkpoint | null;
}

export interface Checkpoint {
  checkpoint_id?: string;
  checkpoint_ns?: string;
}

export interface ThreadState {
  values: Values | null;
  next?: string[];
  tasks?: Task[];
  checkpoint?: Checkpoint | null;
  parent_checkpoint?: Checkpoint | null;
  checkpoint_id?: string;
  created_at?: string | null;
  metadata?: { source?: string; step?: number; run_id?: string } | null;
}

export interface Run {
  run_id: string;
  assistant_id?: string;
  status?: string;
  created_at?: string;
  updated_at?: string;
  /** What the run was started with. Some servers keep it for themselves. */
  kwargs?: { input?: unknown; command?: { resume?: unknown } | null } | null;
}

export interface GraphShape {
  nodes: { id: string | number; data?: unknown }[];
  edges: { source: string | number; target: string | number; conditional?: boolean; data?: unknown }[];
}

export interface ToolCall {
  id?: string;
  name: string;
  args: unknown;
}

export interface Message {
  id?: string;
  type?: string;
  role?: string;
  content?: unknown;
  name?: string;
  tool_call_id?: string;
  tool_calls?: ToolCall[];
  usage_metadata?: { total_tokens?: number } | null;
  response_metadata?: { model_name?: unknown; model?: unknown } | null;
}

/** Returns the messages of a state, or [] for a graph that has none. */
export function messagesIn(values: Values | null | undefined): Message[] {
  const found = values?.["messages"];
  const list = Array.isArray(found) ? found : [];
  return list.filter((one): one is Message => typeof one === "object" && one !== null);
}

/** Parts of a message that are shown in another way: calls of tools, images and files. */
const unsaid = new Set(["tool_use", "input_json_delta", "tool_call", "image_url", "image", "file"]);

/** Returns the text of a message. Parts that are no text, such as images, are named. */
export function textOfMessage({ content }: Message): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content == null ? "" : JSON.stringify(content);
  return content
    .map((part: unknown) => {
      if (typeof part === "string") return part;
      const { text, type } = (part ?? {}) as { text?: unknown; type?: unknown };
      if (typeof text === "string") return text;
      return unsaid.has(String(type)) ? "" : `[${String(type ?? "part")}]`;
    })
    .join("");
}

export type Author = "human" | "ai" | "tool" | "system";

export function authorOf({ type, role }: Message): Author {
  const word = String(type ?? role ?? "").toLowerCase();
  if (word.startsWith("human") || word === "user") return "human";
  if (word.startsWith("tool") || word.startsWith("function")) return "tool";
  return word.startsWith("system") ? "system" : "ai";
}

/** Returns the first message of a person, or the start of the thread's id. */
export function titleOf({ thread_id, values }: Thread): string {
  const first = messagesIn(values).find((message) => authorOf(message) === "human");
  const text = first === undefined ? "" : textOfMessage(first).trim();
  return text === "" ? `Thread ${endOf(thread_id)}` : text.slice(0, 120);
}

/** Returns what a thread waits for or said last. */
export function lastOf(thread: Thread): string {
  const asked = Object.values(thread.interrupts ?? {}).flat()[0];
  if (thread.status === "interrupted" && asked !== undefined) return questionOf(asked.value);
  const last = messagesIn(thread.values).at(-1);
  if (last !== undefined && authorOf(last) !== "human")
    return textOfMessage(last)
      .replaceAll(/[*_`#|]/g, "")
      .slice(0, 160);
  return "";
}

const questionKeys = ["question", "prompt", "message", "title", "description", "instruction", "ask"];

/** Returns the question of an interrupt, in the agent's words. */
export function questionOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return `Continue? ${JSON.stringify(value) ?? ""}`.trim();
  const record = (Array.isArray(value) ? value[0] : value) as Record<string, unknown>;
  const key = questionKeys.find((name) => typeof record?.[name] === "string" && record[name] !== "");
  if (key !== undefined) return String(record[key]);
  const [request, ...others] = actionRequests(value);
  if (request === undefined) return "This run waits for an answer.";
  return others.length === 0 ? `Allow ${request.name}?` : `Allow ${others.length + 1} tool calls?`;
}

export const isQuestionKey = (key: string): boolean => questionKeys.includes(key);

/** A tool call that a run asks permission for. */
export interface ActionRequest {
  name: string;
  args: Record<string, unknown>;
}

/** Returns the tool calls that an interrupt asks about, in the forms of LangChain's middleware and of its agent inbox. */
export function actionRequests(value: unknown): ActionRequest[] {
  if (Array.isArray(value)) return value.flatMap(actionRequests);
  if (typeof value !== "object" || value === null) return [];
  const { action_requests: many, action_request: one } = value as Record<string, unknown>;
  const list = Array.isArray(many) ? many : one === undefined ? [] : [one];
  return list.flatMap((request: unknown) => {
    const { name, action, args, arguments: other } = (request ?? {}) as Record<string, unknown>;
    const called = name ?? action;
    if (typeof called !== "string") return [];
    const given = args ?? other ?? {};
    return [
      { name: called, args: (typeof given === "object" ? given : { arguments: given }) as Record<string, unknown> },
    ];
  });
}

/** Returns the threads that an agent listed, without those that have no id. Agents are foreign servers. */
export function threadsIn(found: unknown): Thread[] | null {
  if (!Array.isArray(found)) return null;
  return (found as (Partial<Thread> | null)[])
    .filter((one): one is Thread => typeof one?.thread_id === "string")
    .map(
      (one) =>
        ({
          ...one,
          ...{ created_at: textOr(one.created_at), updated_at: textOr(one.updated_at) },
          ...{ status: typeof one.status === "string" ? one.status : "idle" },
          interrupts: interruptsIn(one.interrupts),
        }) as Thread,
    );
}

const textOr = (value: unknown) => (typeof value === "string" ? value : undefined);

function interruptsIn(found: unknown): Record<string, Interrupt[]> {
  if (typeof found !== "object" || found === null) return {};
  const lists = Object.entries(found).filter((entry): entry is [string, unknown[]] => Array.isArray(entry[1]));
  const isInterrupt = (one: unknown) => typeof one === "object" && one !== null && "value" in one;
  return Object.fromEntries(lists.map(([task, list]) => [task, list.filter(isInterrupt) as Interrupt[]]));
}

export const checkpointIdOf = ({ checkpoint, checkpoint_id }: ThreadState): string | undefined =>
  checkpoint?.checkpoint_id ?? checkpoint_id;

/** Returns a list, or an empty one. Agents are foreign servers: what should be a list may be anything. */
export const listOf = <T>(found: unknown): T[] => (Array.isArray(found) ? (found as T[]) : []);

const isObject = (found: unknown): found is Record<string, unknown> => typeof found === "object" && found !== null;

/** Returns the assistants of an answer that can be named and called. */
export const assistantsIn = (found: readonly unknown[]): Assistant[] =>
  found.filter(
    (one): one is Assistant & Record<string, unknown> =>
      isObject(one) && typeof one["assistant_id"] === "string" && typeof one["graph_id"] === "string",
  );

/** Returns the checkpoints of an answer, with lists where the pages expect them. */
export const statesIn = (found: unknown): ThreadState[] =>
  listOf(found)
    .filter(isObject)
    .map((state) => ({
      ...(state as unknown as ThreadState),
      next: listOf(state["next"]).filter((name) => typeof name === "string"),
      tasks: listOf(state["tasks"])
        .filter(isObject)
        .map((task) => ({
          ...(task as unknown as Task),
          interrupts: listOf<Interrupt>(task["interrupts"]).filter(isObject),
        })),
    }));
