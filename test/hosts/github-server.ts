import { createVerify, generateKeyPairSync, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { gitBackend } from "../support/git-backend.ts";

/** Private key of the App, generated for this run. */
export const appKey = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const privateKeyPem = appKey.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
export const appId = "1337";
export const webhookSecret = "hook-secret-of-the-app";
export const clientSecret = "client-secret-of-the-app";

export interface Recorded {
  method: string;
  path: string;
  authorization: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape.
  body: any;
}

export interface Pull {
  number: number;
  head: { ref: string; sha: string; repo: { full_name: string } | null };
  base: { ref: string; repo: { full_name: string } };
  labels: { name: string }[];
  draft: boolean;
}

/**
 * Starts a GitHub with the endpoints that Pierhead uses, in the shapes of its public REST reference (version 2022-11-28), below
 * `/api/v3` like an Enterprise Server. It serves the repositories over git's smart HTTP protocol to callers with a token of
 * the App.
 */
export async function startGithub(repositories: Record<string, string>) {
  const calls: Recorded[] = [];
  const tokens = new Map<string, { permissions: Record<string, string>; repositories: string[] | null }>();
  const state = {
    pulls: [] as Pull[],
    comments: new Map<number, { id: number; issue: number; body: string }>(),
    checks: new Map<number, Record<string, unknown>>(),
    statuses: [] as Record<string, unknown>[],
    installations: new Map([[41, { account: "acme", created_at: new Date().toISOString() }]]),
    userInstallations: [41],
    /** Where the App redirects users after their sign-in. */
    callbackUrl: "",
    /** Submitted manifests, by the code that returns the App's secrets once. */
    manifests: new Map<string, { owner: string | null; manifest: Record<string, unknown> }>(),
    /** Status that the API answers during an outage; null: none. */
    outage: null as number | null,
    /** Paths that the outage affects. */
    outageOf: /./,
    gitFetches: 0,
    /** Git answers after this promise has resolved. */
    gitHeld: null as Promise<void> | null,
    /** Called before pull requests are listed. */
    beforePulls: null as (() => Promise<void>) | null,
  };
  let nextId = 1;

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://github");
    const repository = /^\/([^/]+\/[^/]+?)(?:\.git)?\/(info\/refs|git-upload-pack)$/.exec(url.pathname);
    if (repository !== null) await state.gitHeld;
    if (repository !== null) return serveGit(repository[1] ?? "", `/.git/${repository[2]}`, { request, response, url });
    const register = /^(?:\/organizations\/([^/]+))?\/settings\/apps\/new$/.exec(url.pathname);
    if (register !== null) return registerApp(register[1] ?? null, url, { request, response });
    if (url.pathname === "/login/oauth/authorize") {
      const query = new URLSearchParams({ code: "c0de", state: url.searchParams.get("state") ?? "" });
      return void response.writeHead(302, { location: `${state.callbackUrl}?${query}` }).end();
    }
    const body = await readBody(request);
    if (url.pathname.endsWith("/pulls")) await state.beforePulls?.();
    calls.push({
      method: request.method ?? "",
      path: url.pathname + url.search,
      authorization: authorizationOf(request),
      body,
    });
    const [status, answer] =
      state.outage === null || !state.outageOf.test(url.pathname)
        ? api(request, url, body)
        : [state.outage, { message: "Server Error" }];
    response
      .writeHead(status, { "content-type": "application/json" })
      .end(status === 204 ? undefined : JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape.
  function api(request: IncomingMessage, url: URL, body: any): [number, unknown] {
    if (url.pathname === "/login/oauth/access_token") return [200, { access_token: mint({ user: "read" }, null) }];
    const path = url.pathname.replace(/^\/api\/v3/, "");
    const at = `${request.method} ${path}`;
    const [, code] = /^POST \/app-manifests\/([^/]+)\/conversions$/.exec(at) ?? [];
    if (code !== undefined) return convert(code);
    if (path === "/app" || path.startsWith("/app/"))
      return isApp(request) ? appApi(at, body) : [401, { message: "A JSON web token could not be decoded" }];
    const token = tokens.get(authorizationOf(request).replace(/^Bearer /, ""));
    if (token === undefined) return [401, { message: "Bad credentials" }];
    if (path === "/installation/repositories") return [200, repositoryPage(url)];
    if (path === "/user/installations") return [200, { installations: state.userInstallations.map(installationBody) }];
    return repositoryApi(at, { url, body, permissions: token.permissions });
  }

  /** GitHub's page that accepts a manifest from a form, as if the user had pressed its button. */
  async function registerApp(
    owner: string | null,
    url: URL,
    { request, response }: { request: IncomingMessage; response: ServerResponse },
  ) {
    const manifest = JSON.parse(new URLSearchParams(await text(request)).get("manifest") ?? "{}");
    if (typeof manifest.url !== "string" || (manifest.hook_attributes && !manifest.hook_attributes.url)) {
      return void response.writeHead(422).end('Error: "url" wasn\'t supplied.');
    }
    const code = randomBytes(20).toString("hex");
    state.manifests.set(code, { owner, manifest });
    state.callbackUrl = manifest.callback_urls[0];
    const query = new URLSearchParams({ code, state: url.searchParams.get("state") ?? "" });
    response.writeHead(302, { location: `${manifest.redirect_url}?${query}` }).end();
  }

  function installationBody(id: number) {
    const { account = "octocat", created_at } = state.installations.get(id) ?? {};
    const html_url = `${origin}/organizations/${account}/settings/installations/${id}`;
    return {
      id,
      account: { login: account, type: "Organization" },
      repository_selection: "selected",
      html_url,
      created_at,
    };
  }

  function convert(code: string): [number, unknown] {
    const made = state.manifests.get(code);
    if (made === undefined || !state.manifests.delete(code)) return [404, { message: "Not Found" }];
    const { name, hook_attributes: hook, default_permissions: permissions, default_events: events } = made.manifest;
    return [
      201,
      {
        ...{
          id: Number(appId),
          slug: "pierhead",
          name,
          permissions,
          events,
          owner: { login: made.owner ?? "octocat" },
        },
        ...{ html_url: `${origin}/apps/pierhead`, client_id: "Iv1.8a61f9b3a7aba766", client_secret: clientSecret },
        ...{ pem: privateKeyPem, webhook_secret: hook === undefined ? null : webhookSecret },
      },
    ];
  }

  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape.
  function appApi(at: string, body: any): [number, unknown] {
    if (at === "GET /app") return [200, { id: Number(appId), slug: "pierhead", html_url: `${origin}/apps/pierhead` }];
    const [, id, rest] = /\/app\/installations\/(\d+)(\/access_tokens)?$/.exec(at) ?? [];
    const installation = state.installations.get(Number(id));
    if (installation === undefined) return [404, { message: "Not Found" }];
    if (rest === undefined) {
      return [200, installationBody(Number(id))];
    }
    const wanted: string[] | null = body?.repositories ?? null;
    const unknown = wanted?.find((name) => repositories[`${installation.account}/${name}`] === undefined);
    if (unknown !== undefined)
      return [422, { message: "There is at least one repository that does not exist or is not accessible." }];
    const token = mint(body?.permissions ?? {}, wanted);
    return [201, { token, expires_at: new Date(Date.now() + 3_600_000).toISOString(), permissions: body?.permissions }];
  }

  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape.
  type Asked = { url: URL; body: any; permissions: Record<string, string> };
  const refusal: [number, unknown] = [403, { message: "Resource not accessible by integration" }];

  function repositoryApi(at: string, asked: Asked): [number, unknown] {
    if (/^GET \/repos\/[^/]+\/[^/]+\/pulls$/.test(at)) return listPulls(asked);
    const comment = /^(POST|PATCH) \/repos\/[^/]+\/[^/]+\/issues\/(?:comments\/)?(\d+)(?:\/comments)?$/.exec(at);
    if (comment !== null) return putComment(comment[1] === "PATCH", Number(comment[2]), asked);
    const check = /^(POST|PATCH) \/repos\/[^/]+\/[^/]+\/check-runs(?:\/(\d+))?$/.exec(at);
    if (check !== null) return putCheck(check[2] === undefined ? null : Number(check[2]), asked);
    return [404, { message: "Not Found" }];
  }

  function listPulls({ url, permissions }: Asked): [number, unknown] {
    if (permissions["pull_requests"] === undefined) return refusal;
    const page = Number(url.searchParams.get("page") ?? 1);
    const size = Number(url.searchParams.get("per_page") ?? 30);
    const pulls = state.pulls.filter((pull) => pull.base.ref === url.searchParams.get("base"));
    return [200, pulls.slice((page - 1) * size, page * size)];
  }

  function putComment(isChange: boolean, number: number, { body, permissions }: Asked): [number, unknown] {
    if (permissions["pull_requests"] !== "write") return refusal;
    const known = isChange ? state.comments.get(number) : { id: nextId++, issue: number, body: "" };
    if (known === undefined) return [404, { message: "Not Found" }];
    state.comments.set(known.id, { ...known, body: body.body });
    return [isChange ? 200 : 201, { id: known.id, body: body.body }];
  }

  function putCheck(known: number | null, { body, permissions }: Asked): [number, unknown] {
    if (permissions["checks"] !== "write") return refusal;
    const id = known ?? nextId++;
    state.checks.set(id, { ...state.checks.get(id), ...body, id });
    return [known === null ? 201 : 200, { id }];
  }

  function mint(permissions: Record<string, string>, wanted: string[] | null): string {
    const token = `ghs_${randomBytes(18).toString("hex")}`;
    tokens.set(token, { permissions, repositories: wanted });
    return token;
  }

  function repositoryPage(url: URL) {
    const page = Number(url.searchParams.get("page") ?? 1);
    const size = Number(url.searchParams.get("per_page") ?? 30);
    const all = Object.keys(repositories).map((full, at) => {
      const [login = "", name = ""] = full.split("/");
      return {
        id: at + 1,
        name,
        full_name: full,
        owner: { login },
        html_url: `${origin}/${full}`,
        private: true,
        default_branch: "main",
      };
    });
    return { total_count: all.length, repositories: all.slice((page - 1) * size, page * size) };
  }

  function serveGit(
    full: string,
    pathInfo: string,
    exchange: { request: IncomingMessage; response: ServerResponse; url: URL },
  ) {
    const { request, response, url } = exchange;
    const [user, password = ""] = Buffer.from(authorizationOf(request).replace(/^Basic /, ""), "base64")
      .toString()
      .split(":");
    const token = tokens.get(password);
    const directory = repositories[full];
    const isAllowed =
      user === "x-access-token" &&
      token?.permissions["contents"] === "read" &&
      (token.repositories === null || token.repositories.includes(full.split("/")[1] ?? ""));
    if (directory === undefined || !isAllowed) {
      return void response.writeHead(401, { "www-authenticate": 'Basic realm="GitHub"' }).end("Repository not found.");
    }
    state.gitFetches += 1;
    gitBackend(directory, pathInfo, { request, response, url });
  }

  return {
    ...{ origin, calls, state, tokens },
    /** Environment of a Pierhead server that uses this GitHub. */
    environment: {
      PIERHEAD_GITHUB_URL: origin,
      PIERHEAD_GITHUB_APP_ID: appId,
      PIERHEAD_GITHUB_PRIVATE_KEY: privateKeyPem.replaceAll("\n", "\\n"),
      PIERHEAD_GITHUB_WEBHOOK_SECRET: webhookSecret,
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export type Github = Awaited<ReturnType<typeof startGithub>>;

const authorizationOf = (request: IncomingMessage) => request.headers.authorization ?? "";

/** Checks a JSON Web Token of the App like GitHub: signed with its key, issued by this App, valid for at most ten minutes. */
function isApp(request: IncomingMessage): boolean {
  const [head = "", claims = "", signature = ""] = authorizationOf(request)
    .replace(/^Bearer /, "")
    .split(".");
  const { iat, exp, iss } = JSON.parse(Buffer.from(claims, "base64url").toString() || "{}");
  const nowS = Date.now() / 1_000;
  const isTimely = iat <= nowS && exp > nowS && exp - iat <= 600;
  const check = createVerify("RSA-SHA256").update(`${head}.${claims}`);
  return isTimely && iss === appId && check.verify(appKey.publicKey, Buffer.from(signature, "base64url"));
}

async function readBody(request: IncomingMessage) {
  const body = await text(request);
  return body === "" ? null : JSON.parse(body);
}
