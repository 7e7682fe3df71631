import type { Session } from "../session.ts";
import { harmless } from "../terminal/terminal.ts";
import { columns } from "../terminal/text.ts";

/** Prints who the server takes the caller for, and where each part of the connection comes from. */
export async function whoami(session: Session): Promise<void> {
  const { url, urlFrom, apiKeyFrom, workspaceId } = await session.connection();
  const client = await session.client();
  const caller = await client.getSession({}, { signal: session.signal });
  const inUse = workspaceId ?? caller.workspace_id;
  const workspace = caller.workspaces.find(({ id }) => id === inUse);
  const answer = { url, url_from: urlFrom, api_key_from: apiKeyFrom, workspace_id: inUse, session: caller };
  session.answer(answer, () =>
    harmless(
      columns([
        ["server", `${url} (from ${urlFrom})`],
        ["key", `${caller.name} (${caller.role}, ${caller.scope}; from ${apiKeyFrom})`],
        ["workspace", inUse === null ? "none: set --workspace ID" : `${workspace?.name ?? "unknown"} (${inUse})`],
        ["expires", caller.expires_at ?? "never"],
      ]),
    ),
  );
}
