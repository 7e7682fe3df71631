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

/** The account that the agent reads. The defaults are for GitHub. */
const provider = process.env.ACCOUNT_PROVIDER ?? "github";
const scopes = (process.env.ACCOUNT_SCOPES ?? "read:user").split(" ");
const api = process.env.ACCOUNT_API ?? "https://api.github.com/user";

/** Only the conversation: a token in the state would be stored with the thread. */
const State = new StateSchema({ messages: MessagesValue });

/**
 * Reads the user's account with the user's own token. Without a token, it interrupts the run with the address where the
 * user consents. When the run is resumed, it waits for the consent. A resumed node starts from the beginning, so it first
 * requests the token again, which may exist by then.
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
