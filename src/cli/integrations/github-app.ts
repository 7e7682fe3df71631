import type { Session } from "../session.ts";
import { confirm } from "../terminal/prompt.ts";
import { harmless } from "../terminal/terminal.ts";

export async function githubAppCreate(
  session: Session,
  _args: string[],
  options: { organization?: string; githubUrl?: string; name?: string; public?: boolean },
): Promise<void> {
  const client = await session.client();
  const body = {
    ...(options.organization !== undefined && { organization: options.organization }),
    ...(options.githubUrl !== undefined && { github_url: options.githubUrl }),
    ...(options.name !== undefined && { name: options.name }),
    ...(options.public && { public: true }),
  };
  const link = await client.createGithubAppLink({ body }, { signal: session.signal });
  session.answer(link, () => link.create_url);
  session.terminal.say("Open the link in a browser that is signed in to GitHub. It is valid for one hour and one use.");
}

export async function githubAppShow(session: Session): Promise<void> {
  const client = await session.client();
  const app = await client.getGithubApp({}, { signal: session.signal });
  session.answer(app, () => {
    const rows = [
      `${harmless(app.name ?? "GitHub App")}, id ${app.app_id}, at ${app.page_url ?? app.github_url}`,
      app.source === "configuration" ? "From the server's configuration." : `Created ${app.created_at}.`,
      app.hears_pushes ? "GitHub sends pushes." : "GitHub does not send pushes, so the server polls for them.",
    ];
    return rows.join("\n");
  });
}

export async function githubAppDelete(session: Session, _args: string[], options: { yes?: boolean }): Promise<void> {
  const client = await session.client();
  const app = await client.getGithubApp({}, { signal: session.signal });
  const name = harmless(app.name ?? app.app_id);
  if (!options.yes) await confirm(session, `Remove the GitHub App ${name}? Its installations stop working.`);
  await client.deleteGithubApp({}, { signal: session.signal });
  session.answer({ deleted: true }, () => undefined);
  session.terminal.say("If nothing else uses the App, delete it on GitHub too.");
}
