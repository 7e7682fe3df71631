import { spawn } from "node:child_process";
import type { Session } from "../session.ts";

/** Opens an address in the browser if the terminal is interactive. The caller prints the address in any case. */
export function openInBrowser(session: Session, url: string): void {
  if (!session.terminal.isInteractive || session.options.json || !/^https?:\/\//.test(url)) return;
  const openers: Partial<Record<NodeJS.Platform, string>> = { darwin: "open", win32: "explorer.exe" };
  const browser = spawn(openers[process.platform] ?? "xdg-open", [url], { detached: true, stdio: "ignore" });
  browser.on("error", () => undefined); // without a browser, the printed address is enough
  browser.unref();
}
