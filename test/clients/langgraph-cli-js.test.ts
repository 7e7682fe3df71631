import { langgraphCliJs } from "./install.ts";
import { testLanggraphCli } from "./story.ts";

testLanggraphCli("@langchain/langgraph-cli 1.5.1", langgraphCliJs);
