import { spawn } from "node:child_process";
import type { Session } from "../session.ts";

/** Opens an address in the browser where somebody sits in front of it. The address is printed anyway. */
export function openWhereSomebodyLooks(session: Session, url: string): void {
  if (!session.terminal.isInteractive || session.options.json || !/^https?:\/\//.test(url)) return;
  const openers: Partial<Record<NodeJS.Platform, string>> = { darwin: "open", win32: "explorer.exe" };
  const browser = spawn(openers[process.platform] ?? "xdg-open", [url], { detached: true, stdio: "ignore" });
  browser.on("error", () => undefined); // a machine without a browser needs no more than the address
  browser.unref();
}
