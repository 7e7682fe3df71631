import { AIMessage } from "@langchain/core/messages";
import {
  END,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesValue,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { askForToken, waitForToken } from "./tokens.ts";

/** Which account it looks at; the defaults are those of GitHub. */
const provider = process.env.ACCOUNT_PROVIDER ?? "github";
const scopes = (process.env.ACCOUNT_SCOPES ?? "read:user").split(" ");
const api = process.env.ACCOUNT_API ?? "https://api.github.com/user";

/** The conversation, and nothing else: a token in here would be kept with the thread. */
const State = new StateSchema({ messages: MessagesValue });

/**
 * Looks at the user's account with the user's own token. Without one the run is interrupted with the address where the
 * user consents; resumed, it waits for that. A node begins anew when it is resumed, so it asks again first, and by then
 * the token may be there.
 */
async function lookAtAccount(_state: typeof State.State, config: LangGraphRunnableConfig) {
  const user = config.configurable?.["user_id"];
  if (typeof user !== "string") return say("I do not know who you are: configurable.user_id is missing.");
  const asked = await askForToken({ provider, scopes, user });
  if (asked.token !== null) return describeAccount(asked.token);
  interrupt({ message: `Sign in to ${provider}, then go on.`, auth_url: asked.signInUrl, provider, scopes });
  try {
    return await describeAccount(await waitForToken(asked.waitFor));
  } catch (error) {
    return say(`I cannot look at your account: ${(error as Error).message}.`);
  }
}

async function describeAccount(token: string) {
  const response = await fetch(api, { headers: { authorization: `Bearer ${token}`, accept: "application/json" } });
  if (!response.ok) return say(`${new URL(api).host} answered with status ${response.status}.`);
  const account = await response.json();
  return say(`At ${provider} you are ${account.login ?? account.email ?? account.sub}.`);
}

const say = (text: string) => ({ messages: [new AIMessage(text)] });

export const graph = new StateGraph(State)
  .addNode("lookAtAccount", lookAtAccount)
  .addEdge(START, "lookAtAccount")
  .addEdge("lookAtAccount", END)
  .compile();
