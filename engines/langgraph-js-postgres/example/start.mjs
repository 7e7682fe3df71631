// Serves the graphs of `agent.mjs` on the database in DATABASE_URL. Build the package first: npm run build
import { serve } from "@pierhead/langgraph-js-postgres";

const names = ["steps", "approval", "failing", "memory", "chat", "branches"];
const graphs = Object.fromEntries(names.map((name) => [name, `./agent.mjs:${name}`]));
const port = Number(process.env.PORT ?? 2024);

const server = await serve(
  { port, host: "127.0.0.1", nWorkers: 10, cwd: import.meta.dirname, graphs },
  { connectionString: process.env.DATABASE_URL },
);
console.log(`listening on ${server.host}`);
