import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { type Client, createClient } from "../../../src/client/client.ts";
import { startServerProcess } from "../../storm/server-process.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { sharedCacheDir } from "../../support/server.ts";

/** Output of the identity server; see identity-server.mjs. */
export interface IdentityLine {
  ready?: true;
  grant?: string;
  refused?: string;
  error?: string;
  revoked?: string;
  registered?: string;
  /** Secrets that it issued, for tests that search for leaks. */
  secrets?: string[];
}

export interface Identity {
  issuer: string;
  mcpUrl: string;
  lines: IdentityLine[];
  count(matches: (line: IdentityLine) => boolean): number;
}

export interface LiveWorld extends AsyncDisposable {
  /** A complete Pierhead server as a separate process. */
  readonly client: Client;
  readonly url: string;
  readonly apiKey: string;
  dataDir: string;
  /** Its complete log at level debug. */
  log(): string;
  /** Kills it, as a power cut would, and starts it again at the same address. */
  crash(): Promise<void>;
  identity: Identity;
  browser: Browser;
  app: App;
}

/** An application with its own redirect URI. */
export interface App {
  redirectUri: string;
  /** Address of the browser's redirect, with the provider's parameters. */
  received: URL[];
}

export const clientSecret = "canary-client-secret-5f2b";

/**
 * Starts the world.
 * @param accessTokenTtlS life of access tokens; a token with 60 s or less left is refreshed before it is returned.
 * @param compute where the agents run.
 */
export async function startLiveWorld({ accessTokenTtlS = 600, compute = "none" } = {}): Promise<LiveWorld> {
  const [port, issuerPort, mcpPort] = [await freePort(), await freePort(), await freePort()];
  const redirectUris = ["one", "two"].map((name) => `http://127.0.0.1:${port}/v2/auth/callback/${name}`);
  redirectUris.push(`http://127.0.0.1:${port}/v2/session/oidc/callback`);
  const app = await startApp();
  const identity = await startIdentity({
    port: issuerPort,
    mcpPort,
    accessTokenTtlS,
    clients: [
      {
        client_id: "pierhead",
        client_secret: clientSecret,
        redirect_uris: [...redirectUris, app.redirectUri],
        grant_types: ["authorization_code", "refresh_token"],
        application_type: "native",
      },
    ],
  });
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-auth-"));
  const environment = {
    PORT: String(port),
    PIERHEAD_COMPUTE: compute,
    PIERHEAD_LOG_LEVEL: "debug",
    PIERHEAD_CACHE_DIR: sharedCacheDir,
    PIERHEAD_OIDC_ISSUER: identity.issuer,
    PIERHEAD_OIDC_CLIENT_ID: "pierhead",
    PIERHEAD_OIDC_CLIENT_SECRET: clientSecret,
    PIERHEAD_OIDC_NAME: "Example ID",
  };
  let log = "";
  const start = async () => {
    const started = await startServerProcess(dataDir, environment);
    assert.ok(started);
    started.child.stderr?.on("data", (chunk: Buffer) => {
      log += chunk.toString();
    });
    return started;
  };
  let server = await start();
  const browser = await openBrowser();
  return {
    get client() {
      return createClient({ baseUrl: server.url, apiKey: server.apiKey });
    },
    get url() {
      return server.url;
    },
    get apiKey() {
      return server.apiKey;
    },
    dataDir,
    identity,
    browser,
    app,
    log: () => log,
    async crash() {
      server.child.kill("SIGKILL");
      await server.ended;
      server = await start();
    },
    async [Symbol.asyncDispose]() {
      await browser.close();
      await server.stop();
      await identity.stop();
      await app.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function startIdentity(options: { port: number; mcpPort: number; clients: unknown[]; accessTokenTtlS: number }) {
  const program = path.join(import.meta.dirname, "identity-server.mjs");
  const child: ChildProcess = spawn(process.execPath, [program, JSON.stringify(options)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: IdentityLine[] = [];
  assert.ok(child.stdout);
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (line.startsWith("{")) lines.push(JSON.parse(line));
  });
  await eventually(
    () => lines,
    (said) => said.some(({ ready }) => ready === true),
    { what: "the identity server" },
  );
  return {
    issuer: `http://127.0.0.1:${options.port}`,
    mcpUrl: `http://127.0.0.1:${options.mcpPort}/mcp`,
    lines,
    count: (matches: (line: IdentityLine) => boolean) => lines.filter(matches).length,
    async stop() {
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}

async function startApp() {
  const received: URL[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", redirectUri);
    if (url.pathname === "/own") received.push(url);
    response.writeHead(200, { "content-type": "text/html" }).end("<title>App</title><p>Received</p>");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}/own`;
  return {
    redirectUri,
    received,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** A user with a real browser. */
export interface Browser {
  /** Opens an address as a new visitor, signs in, and consents or denies. Returns the last page. */
  consent(url: string, as: { user: string; denies?: boolean }): Promise<LastPage>;
  /** Opens an address. */
  look(url: string): Promise<LastPage>;
  /** Runs `act` as a new visitor. */
  visit(act: (page: Page) => Promise<void>): Promise<LastPage>;
  close(): Promise<void>;
}

export interface LastPage {
  url: string;
  title: string;
  text: string;
  html: string;
}

/** The used parts of Playwright. The package is installed beside this suite only. */
export interface Page {
  waitForSelector(selector: string): Promise<unknown>;
  evaluate(script: string): Promise<unknown>;
  goto(url: string): Promise<unknown>;
  fill(selector: string, text: string): Promise<void>;
  click(selector: string): Promise<void>;
  waitForURL(matches: (url: URL) => boolean): Promise<void>;
  url(): string;
  title(): Promise<string>;
  innerText(selector: string): Promise<string>;
  content(): Promise<string>;
}
interface Context {
  newPage(): Promise<Page>;
  close(): Promise<void>;
}
interface Chromium {
  launch(options: object): Promise<{ newContext(): Promise<Context>; close(): Promise<void> }>;
}

async function openBrowser(): Promise<Browser> {
  const { chromium } = (await load("playwright-core")) as { chromium: Chromium };
  const browser = await chromium.launch({
    executablePath: process.env["PIERHEAD_TEST_CHROMIUM"],
    // Without a sandbox it also runs in containers. It only opens our own pages and reaches only this machine.
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  const visit = async (act: (page: Page) => Promise<void>): Promise<LastPage> => {
    const context = await browser.newContext();
    try {
      const page = await context.newPage();
      await act(page);
      const [title, text, html] = [await page.title(), await page.innerText("body"), await page.content()];
      return { url: page.url(), title, text, html };
    } finally {
      await context.close();
    }
  };
  return {
    visit,
    look: (url) => visit(async (page) => void (await page.goto(url))),
    consent: (url, { user, denies = false }) =>
      visit(async (page) => {
        await page.goto(url);
        await page.fill("input[name=login]", user);
        await page.fill("input[name=password]", "x");
        await page.click("button[type=submit]");
        await page.click(denies ? "a[href*=abort]" : "button[type=submit]");
        await page.waitForURL(({ pathname }) => pathname.startsWith("/v2/auth/") || pathname === "/own");
      }),
    close: () => browser.close(),
  };
}

/** Loads a package that the project's compiler does not see. */
export const load = (name: string): Promise<unknown> => import(name);
