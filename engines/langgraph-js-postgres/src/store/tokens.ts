import type { Query } from "./database.ts";

export interface Tokens {
  input: number;
  output: number;
}

/**
 * Returns the tokens of a run: those that the models reported in the messages which the run added to its state, under
 * `messages`. Messages that the thread or the input of the run had before do not count again.
 * The thread still has the state from before the run.
 * @returns undefined when no model reported any.
 */
export async function tokensOf(
  query: Query,
  { threadId, input, values }: { threadId: string; input?: unknown; values?: unknown },
): Promise<Tokens | undefined> {
  const messages = messagesIn(values).flatMap((message) => {
    const usage = usageOf(message);
    return usage === undefined ? [] : [{ id: message["id"], usage }];
  });
  if (messages.length === 0) return undefined;
  const known = new Set([...(await idsOf(query, threadId)), ...messagesIn(input).map(({ id }) => id)]);
  const added = messages.filter(({ id }) => id === undefined || !known.has(id)).map(({ usage }) => usage);
  const sumOf = (name: keyof Tokens) => added.reduce((sum, usage) => sum + usage[name], 0);
  return added.length === 0 ? undefined : { input: sumOf("input"), output: sumOf("output") };
}

export async function addTokens(query: Query, { input, output }: Tokens): Promise<void> {
  await query(
    `insert into @totals as t (name, total) values ('input_tokens', $1), ('output_tokens', $2)
     on conflict (name) do update set total = t.total + excluded.total`,
    [input, output],
  );
}

/** Reads the form of the state that is searched: no operator reads into a `json` that contains NUL. */
async function idsOf(query: Query, threadId: string): Promise<unknown[]> {
  const rows = await query<{ id: unknown }>(
    `select m ->> 'id' as id from @threads, jsonb_array_elements(
       case jsonb_typeof(values_search -> 'messages') when 'array' then values_search -> 'messages' else '[]' end) m
     where thread_id = $1`,
    [threadId],
  );
  return rows.map(({ id }) => id);
}

type Loose = Record<string, unknown>;

const isRecord = (value: unknown): value is Loose => typeof value === "object" && value !== null;

function messagesIn(values: unknown): Loose[] {
  const found = isRecord(values) ? values["messages"] : undefined;
  return Array.isArray(found) ? found.filter(isRecord) : [];
}

/** Models report their tokens in `usage_metadata`, older integrations in `response_metadata`. undefined: not at all. */
function usageOf(message: Loose): Tokens | undefined {
  const usage = message["usage_metadata"];
  if (isRecord(usage)) return { input: countOf(usage["input_tokens"]), output: countOf(usage["output_tokens"]) };
  const metadata = message["response_metadata"];
  const older = isRecord(metadata) ? metadata["tokenUsage"] : undefined;
  if (!isRecord(older)) return undefined;
  return { input: countOf(older["promptTokens"]), output: countOf(older["completionTokens"]) };
}

const countOf = (value: unknown) => (Number.isSafeInteger(value) ? Math.max(0, value as number) : 0);
