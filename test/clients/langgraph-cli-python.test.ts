import { langgraphCliPython } from "./install.ts";
import { testLanggraphCli } from "./story.ts";

testLanggraphCli("langgraph-cli 0.4.40", langgraphCliPython);
