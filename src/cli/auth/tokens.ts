import type { OAuthToken, TokenEvent } from "../../contract/oauth/oauth-token.ts";
import type { Session } from "../session.ts";
import { choose, tableOf } from "../terminal/choose.ts";
import { confirm } from "../terminal/prompt.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, parseWhole, shortId } from "../terminal/text.ts";

interface Whose {
  user?: string;
  provider?: string;
}

export async function tokensList(session: Session, _: string[], options: Whose): Promise<void> {
  const tokens = await tokensOf(session, options);
  session.answer({ tokens }, () => {
    const rows = tokens.map((one) => [
      shortId(one.id),
      one.provider_id,
      one.provider_account_label ?? "-",
      one.is_default ? "yes" : "-",
      one.expires_at === null ? "never" : expiry(one.expires_at),
      age(one.created_at),
      one.scopes.join(" "),
    ]);
    return tableOf(session, ["ID", "PROVIDER", "ACCOUNT", "DEFAULT", "EXPIRES", "AGE", "SCOPES"], rows);
  });
  if (tokens.length > 0) return;
  const { user } = options;
  session.terminal.say(user === undefined ? "The key itself has no tokens." : `${user} has no tokens.`);
  if (user === undefined) session.terminal.say("List tokens of a user: pierhead auth tokens list --user NAME");
}

export async function tokensDelete(
  session: Session,
  [wanted = ""]: string[],
  options: Whose & { yes?: boolean },
): Promise<void> {
  const client = await session.client(options.user);
  const tokens = await tokensOf(session, options);
  const token = choose(tokens, wanted, { what: "token", nameOf: ({ id }) => id });
  const name = `${token.provider_account_label ?? shortId(token.id)} at ${token.provider_id}`;
  if (!options.yes) await confirm(session, `Revoke and delete the token of ${harmless(name)}?`);
  await client.deleteOAuthToken({ token_id: token.id }, { signal: session.signal });
  session.answer({ token_id: token.id, deleted: true }, () => undefined);
  session.terminal.say(`Deleted the token of ${harmless(name)}.`);
}

export async function tokensHistory(session: Session, _: string[], options: Whose & { lines: string }): Promise<void> {
  const client = await session.client(options.user);
  const limit = Math.max(1, Math.min(200, parseWhole(options.lines)));
  const question = { limit, ...(options.provider !== undefined && { provider_id: options.provider }) };
  const events = await client.listTokenEvents(question, { signal: session.signal });
  session.answer({ events }, () => {
    const rows = events.map((one) => [
      one.created_at.slice(0, 19).replace("T", " "),
      one.provider_id,
      one.event_type,
      one.provider_account_label ?? "-",
      detailOf(one),
    ]);
    return tableOf(session, ["WHEN", "PROVIDER", "WHAT", "ACCOUNT", "DETAIL"], rows);
  });
  if (events.length === 0) session.terminal.say("No events yet.");
}

async function tokensOf(session: Session, { user, provider }: Whose): Promise<OAuthToken[]> {
  const client = await session.client(user);
  const question = provider === undefined ? {} : { provider_id: provider };
  return client.listOAuthTokens(question, { signal: session.signal });
}

const detailOf = ({ reason, detail, scopes }: TokenEvent) =>
  detail === null ? scopes.join(" ") : `${detail}${reason === null ? "" : ` (${reason})`}`;

/** Formats the expiry. An expired token is not an error, because it is refreshed on the next request. */
function expiry(at: string): string {
  const leftMs = Date.parse(at) - Date.now();
  return leftMs <= 0 ? "on next use" : `in ${age(new Date(Date.now() - leftMs).toISOString())}`;
}
