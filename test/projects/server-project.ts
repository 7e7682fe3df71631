export const manifest = (dependencies: Record<string, string>, more: object = {}) => ({
  name: "server",
  private: true,
  dependencies,
  ...more,
});

interface Question {
  path: string;
  headers?: Record<string, string>;
  body?: object;
  answers: RegExp;
}

/** A `Project` of table.ts, which lists it. */
export interface Server {
  name: string;
  files: Record<string, string | object>;
  prepare?: string[][];
  needs: ("npm" | "pypi" | "uv")[];
  configPath: string;
  ask: (Question | "events")[] | { buildFails: RegExp };
  log?: RegExp[];
  secrets?: Record<string, string>;
}

export const server = (one: Server) => ({ ...one, directory: "server" });

export const hello: Question[] = [{ path: "/hello", answers: /hello/ }];

export const javascript = (
  name: string,
  files: Record<string, string | object>,
  log: RegExp,
  more: Partial<Server> = {},
) => server({ name, files, needs: ["npm"], configPath: "package.json", ask: hello, log: [log], ...more });

export const python = (name: string, files: Record<string, string>, log: RegExp, more: Partial<Server> = {}) => {
  const configPath = "pyproject.toml" in files ? "pyproject.toml" : "requirements.txt";
  return server({ name, files, needs: ["pypi"], configPath, ask: hello, log: [log], ...more });
};

/** A server of Node's own modules that greets with its arguments. */
export const nodeServer = (greeting = '"hello"') => `
import { createServer } from "node:http";
createServer((_, response) => response.end(${greeting})).listen(process.env.PORT, process.env.HOST);
`;

export const fastapi = `
from fastapi import FastAPI

app = FastAPI()


@app.get("/hello")
def hello():
    return "hello"
`;

export const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } },
};

export const mcp: Question[] = [
  {
    path: "/mcp",
    headers: { accept: "application/json, text/event-stream" },
    body: initialize,
    answers: /"serverInfo"/,
  },
];

/** The SDK refuses hosts other than localhost unless the project names them. */
export const ofAnyHost: Question[] = mcp.map((one) => ({
  ...one,
  headers: { ...one.headers, host: "agents.example.com" },
}));

export const card: Question[] = [{ path: "/.well-known/agent-card.json", answers: /"name": ?"greeter"/ }];
