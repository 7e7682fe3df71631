import type { Session } from "../session.ts";
import { fittedTo } from "../terminal/choose.ts";
import { columns } from "../terminal/text.ts";
import { findContext, localName, overriding, readContexts, usedContext, writeContexts } from "./contexts.ts";

/** Lists the contexts without their keys. */
export async function contextList(session: Session): Promise<void> {
  const { current = localName, contexts } = readContexts(session.context);
  const rows = Object.entries(contexts).map(([name, { url, workspace_id }]) => ({
    ...{ name, url, workspace_id: workspace_id ?? null },
  }));
  session.answer({ current, contexts: rows }, () =>
    columns(
      fittedTo(session.context.stdout, [
        [current === localName ? "*" : " ", localName, "server of the data directory", ""],
        ...rows.map(({ name, url, workspace_id }) => [name === current ? "*" : " ", name, url, workspace_id ?? "-"]),
      ]),
    ),
  );
  if (overriding(session.context) !== undefined) session.terminal.say(usedContext(session.context, current));
}

export async function contextUse(session: Session, [name = ""]: [string?]): Promise<void> {
  const { context, terminal } = session;
  const stored = readContexts(context);
  if (name !== localName) findContext(stored, name);
  const { contexts } = stored;
  writeContexts(context, name === localName ? { contexts } : { current: name, contexts });
  session.answer({ current: name }, () => undefined);
  terminal.say(usedContext(context, name));
}
