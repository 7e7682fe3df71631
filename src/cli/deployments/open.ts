import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { openInBrowser } from "../terminal/open-browser.ts";
import { harmless } from "../terminal/terminal.ts";
import { findDeployment } from "./find-deployment.ts";

/**
 * Prints the address of a deployment, and opens it in the browser if the terminal is interactive. Without a deployment,
 * prints a link that signs a browser in to the console.
 */
export async function open(session: Session, [name]: string[], options: { console?: boolean }): Promise<void> {
  if (name === undefined) return openConsole(session);
  const deployment = await findDeployment(session, name);
  const { url: server } = await session.connection();
  const page = `${server}/o/${deployment.tenant_id}/host/deployments/${deployment.id}`;
  const url = options.console ? page : deployment.url;
  if (url === null) {
    throw new CliFailure(`${deployment.name} has no address yet.`, { hints: [`Why: pierhead why ${deployment.name}`] });
  }
  session.answer({ url }, () => harmless(url));
  openInBrowser(session, url);
}

async function openConsole(session: Session): Promise<void> {
  const client = await session.client();
  const { url } = await client.createSignInLink({ signal: session.signal });
  session.answer({ url }, () => harmless(url));
  // Not opened: every user of the machine could read the link in the arguments of the browser.
  session.terminal.say("Open this link in your browser. It signs one browser in, once and within ten minutes.");
}
