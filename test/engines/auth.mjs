// The auth handler of a project: the user is the text of the Authorization header and owns what it creates.
import { createRequire } from "node:module";
import path from "node:path";

const packageDir = path.join(import.meta.dirname, "../../engines/langgraph-js-postgres/package.json");
const { Auth, HTTPException } = createRequire(packageDir)("@langchain/langgraph-sdk/auth");

export const auth = new Auth()
  .authenticate((request) => {
    const identity = request.headers.get("authorization");
    if (identity === null) throw new HTTPException(401, { message: "who are you?" });
    return { identity, permissions: [] };
  })
  .on("*", ({ value, user, event }) => {
    if (event.startsWith("assistants:") || event.startsWith("store:")) return true;
    value.metadata = { ...value.metadata, owner: user.identity };
    return { owner: user.identity };
  });
