import { useQuery } from "@tanstack/react-query";
import type { Client } from "../../../src/client/client.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { backOff } from "./back-off.ts";
import { AgentError, createAgent, isForeign, segment } from "./client.ts";
import { isKnownForeign, rememberForeign } from "./foreign-servers.ts";
import { assistantIdOf, fromNewest, resumeCommand } from "./resume.ts";
import { type Interrupt, type Run, type Thread, threadsIn } from "./types.ts";

/** Deployments of one inbox. Each is one call of its agent. */
export const deploymentsMax = 100;
const threadsMax = 50;
const callsMax = 4;
const callTimeoutMs = 10_000;

/** Answers that are younger are not asked for again. */
const freshMs = 8_000;

/** How often the navigation and the page of approvals ask. */
export const countPace = backOff<Inbox>(60_000, 120_000);
export const inboxPace = backOff<Inbox>(freshMs, 60_000);

/** A run that waits for a person. */
export interface Request {
  /** The place of the question. A later question of the same node has the same key. */
  key: string;
  deployment: Deployment;
  thread: Thread;
  /** null: the run stopped at a breakpoint and asks nothing. */
  interrupt: Interrupt | null;
  since: string | null;
}

export interface Inbox {
  /** The longest wait first. */
  requests: Request[];
  /** Deployments that were not asked, because the question would wake them. */
  sleeping: Deployment[];
  unreached: { deployment: Deployment; why: string }[];
  /** Servers without the agent API. */
  foreignCount: number;
  askedCount: number;
  /** Deployments beyond the limit of one inbox. */
  leftCount: number;
}

/** Requests of all agents of the workspace. */
export function useInbox(pace: typeof countPace, isEnabled = true) {
  const { client, workspaceId } = useSession();
  const queryKey = ["approvals", workspaceId];
  return useQuery({
    queryKey,
    queryFn: ({ signal }) => readInbox(client, queries.getQueryData<Inbox>(queryKey), signal),
    refetchInterval: pace,
    staleTime: freshMs,
    enabled: isEnabled,
  });
}

/** Health of the deployments that may have waiting runs. Others cannot answer. */
const mayServe = ["live", "degraded", "deploying", "unknown", "sleeping"] as const;

/** @param before the previous result. Its requests stay while their agent sleeps or cannot be asked: a person may be answering one. */
async function readInbox(client: Client, before: Inbox | undefined, signal: AbortSignal): Promise<Inbox> {
  const list = await client.listDeployments({ health: [...mayServe], limit: deploymentsMax }, { signal });
  const isCut = list.resources.length === deploymentsMax;
  const { counts } = isCut ? await client.countHealth({}, { signal }) : { counts: null };
  const total = counts === null ? 0 : mayServe.reduce((sum, word) => sum + counts[word], 0);
  const serving = list.resources.filter(({ active_revision_id }) => active_revision_id !== null);
  const inbox: Inbox = {
    ...{ requests: [], unreached: [], foreignCount: 0, askedCount: 0 },
    sleeping: serving.filter(({ health }) => health.status === "sleeping"),
    leftCount: Math.max(0, total - list.resources.length),
  };
  const awake = serving.filter(({ health }) => health.status !== "sleeping");
  const left = awake.values();
  const askEach = async () => {
    for (const deployment of left) await ask(deployment, inbox, signal);
  };
  await Promise.all(Array.from({ length: callsMax }, askEach));
  signal.throwIfAborted();
  const unasked = new Set(
    [...inbox.sleeping, ...inbox.unreached.map(({ deployment }) => deployment)].map(({ id }) => id),
  );
  inbox.requests.push(...(before?.requests ?? []).filter(({ deployment }) => unasked.has(deployment.id)));
  inbox.requests.sort((a, b) => (a.since ?? "").localeCompare(b.since ?? ""));
  return inbox;
}

async function ask(deployment: Deployment, inbox: Inbox, signal: AbortSignal): Promise<void> {
  if (isKnownForeign(deployment)) {
    inbox.foreignCount += 1;
    return;
  }
  try {
    const threads = await waitingThreads(deployment, true, signal);
    if (threads === null) {
      rememberForeign(deployment);
      inbox.foreignCount += 1;
      return;
    }
    inbox.askedCount += 1;
    inbox.requests.push(...threads.flatMap((thread) => requestsOf(deployment, thread)));
  } catch (error) {
    const isAsleep = error instanceof AgentError && error.status === 409 && error.detail.includes("sleeps");
    if (isAsleep) inbox.sleeping.push(deployment);
    else inbox.unreached.push({ deployment, why: reasonOf(error) });
  }
}

const reasonOf = (error: unknown) => {
  if (error instanceof DOMException && error.name === "TimeoutError") return "It did not answer within 10 s.";
  if (error instanceof AgentError) return error.detail;
  return error instanceof Error ? error.message : String(error);
};

/** Returns the waiting threads of an agent, or null for a server that does not speak the agent API. */
async function waitingThreads(
  { id, tenant_id }: Deployment,
  isBackground: boolean,
  signal?: AbortSignal,
): Promise<Thread[] | null> {
  const agent = createAgent(id, tenant_id, { isBackground });
  const body = { status: "interrupted", limit: threadsMax, offset: 0, sort_by: "updated_at", sort_order: "asc" };
  const limit = signal === undefined ? undefined : AbortSignal.any([signal, AbortSignal.timeout(callTimeoutMs)]);
  try {
    const found = threadsIn(await agent.call<unknown>("POST", "/threads/search", body, limit));
    // A server that ignores the filter returns all of its threads.
    return found?.filter(({ status }) => status === "interrupted") ?? null;
  } catch (error) {
    if (isForeign(error) || error instanceof SyntaxError) return null;
    throw error;
  }
}

function requestsOf(deployment: Deployment, thread: Thread): Request[] {
  const since = thread.updated_at ?? thread.created_at ?? null;
  const asked = Object.values(thread.interrupts ?? {}).flat();
  const key = `${deployment.id} ${thread.thread_id}`;
  if (asked.length === 0) return [{ key, deployment, thread, interrupt: null, since }];
  return asked.map((interrupt, at) => ({ key: `${key} ${interrupt.id ?? at}`, deployment, thread, interrupt, since }));
}

/** Asks a sleeping deployment, which wakes it. */
export const wake = (deployment: Deployment) => waitingThreads(deployment, false);

const isSame = (one: Interrupt, other: Interrupt) =>
  one.id === other.id && JSON.stringify(one.value) === JSON.stringify(other.value);

/** Answers a request, unless another person has answered it since it was read. */
export async function answerRequest({ deployment, thread, interrupt }: Request, answer: unknown): Promise<void> {
  const agent = createAgent(deployment.id, deployment.tenant_id);
  const path = `/threads/${segment(thread.thread_id)}`;
  const now = await agent.call<Thread>("GET", path);
  const open = Object.values(now.interrupts ?? {}).flat();
  // The next question of a node has the id of the previous one, so its words must be the same too.
  if (now.status !== "interrupted" || interrupt === null || !open.some((one) => isSame(one, interrupt)))
    throw new Error("This has been answered in the meantime.");
  const runs = await agent.call<Run[]>("GET", `${path}/runs?limit=1`);
  const assistantId = assistantIdOf(now, runs);
  if (assistantId === undefined) throw new Error("The server does not say which graph ran this thread.");
  const body = fromNewest(now, resumeCommand(interrupt, open, answer));
  await agent.call("POST", `${path}/runs`, { assistant_id: assistantId, ...body });
}
