import { hostname } from "node:os";
import { pause } from "../../base/pause.ts";
import type { Client } from "../../client/client.ts";
import { ApiFailure, isPassing } from "../../client/failure.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { openInBrowser } from "../terminal/open-browser.ts";
import { harmless } from "../terminal/terminal.ts";
import { isSameOrigin } from "./contexts.ts";

/**
 * Gets a key by a login in the browser (RFC 8628): shows a code, which a person who is signed in to the console types there, and
 * polls until they have decided. The page's address has no code, so that a link of an attacker leads to an empty field.
 * @param url of the server, to warn of a page elsewhere: a server could show the code that another one gave it, and get the key.
 */
export async function loginInBrowser(session: Session, client: Client, url: string): Promise<string> {
  const { terminal, signal } = session;
  const started = await client.startDeviceLogin({ body: { client_name: machineName() } }, { signal }).catch(noBrowser);
  const { device_code, user_code, verification_uri, expires_in, interval } = started;
  terminal.say(`Open ${harmless(verification_uri)} in a browser, sign in, and type this code:`);
  if (!isSameOrigin(verification_uri, url)) {
    const warning = `This page is not at ${url}. Type the code only if both addresses are of the same Pierhead server.`;
    terminal.say(terminal.paintErr("yellow", warning));
  }
  terminal.say("");
  terminal.say(`  ${terminal.paintErr("bold", harmless(user_code))}`);
  terminal.say("");
  terminal.say(`Waiting for your answer there, at most ${Math.round(expires_in / 60)} minutes. Ctrl-C cancels.`);
  openInBrowser(session, verification_uri);
  const deadlineAt = performance.now() + expires_in * 1_000;
  while (performance.now() < deadlineAt) {
    await pause(interval * 1_000, signal);
    const { status, key } = await client.finishDeviceLogin({ body: { device_code } }, { signal }).catch(statusAfter);
    if (key !== null) return key.key;
    if (status === "refused")
      throw new CliFailure("The login was refused in the console.", { exitCode: exitCodes.auth });
    if (status === "expired") break;
  }
  throw new CliFailure("The code was not allowed in the console within its time.", {
    exitCode: exitCodes.auth,
    hints: ["Start again: pierhead login"],
  });
}

/** Name under which the key is listed. The server accepts no blanks or other signs in it. */
function machineName(): string {
  const name = hostname()
    .replace(/\.local$/, "")
    .replace(/[^A-Za-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "")
    .slice(0, 64);
  return name === "" ? "command-line" : name;
}

const isGone = (error: unknown) => error instanceof ApiFailure && error.status === 404;

function noBrowser(error: unknown): never {
  if (!isGone(error)) throw error;
  throw new CliFailure("This server does not sign command lines in.", {
    because: "It has no console, or is older than this command.",
    hints: ["Use an API key: pierhead login URL --key"],
  });
}

/** Returns the status after a failed poll. While the server restarts, the command line goes on polling (RFC 8628, section 3.5). */
function statusAfter(error: unknown): { status: "expired" | "pending"; key: null } {
  if (isGone(error)) return { status: "expired", key: null };
  if (isPassing(error)) return { status: "pending", key: null };
  throw error;
}
