import { type Browser, chromium } from "playwright-core";

/** Starts Chromium. It reaches this machine only. `hosts` are further names that it may resolve, such as `*.localhost`. */
export function startBrowser(hosts: string[] = []): Promise<Browser> {
  const excluded = ["127.0.0.1", ...hosts].map((host) => `EXCLUDE ${host}`);
  return chromium.launch({
    executablePath: process.env["PIERHEAD_TEST_CHROMIUM"] ?? "/usr/bin/chromium",
    // Containers lack what the sandbox needs. The browser shows only our own pages and reaches only this machine.
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      `--host-resolver-rules=${["MAP * ~NOTFOUND", ...excluded].join(", ")}`,
    ],
  });
}
