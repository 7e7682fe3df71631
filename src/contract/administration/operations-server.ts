import { TemplateList } from "../deployments/template.ts";
import { operation } from "../operation.ts";
import { freeObject } from "../schema.ts";
import { Info, Ok, Readiness } from "./info.ts";

/** Facts about the installation. Only the list of templates needs a key. */
export const serverOperations = {
  getOk: operation("getOk", {
    operationId: "get_ok",
    tag: "Server",
    summary: "Check whether the process is alive",
    response: { status: 200, schema: Ok },
    role: "none",
  }),
  getHealth: operation("getHealth", {
    operationId: "get_health",
    tag: "Server",
    summary: "Same as /ok",
    response: { status: 200, schema: Ok },
    role: "none",
  }),
  getReadiness: operation("getReadiness", {
    operationId: "get_readiness",
    tag: "Server",
    summary: "Check whether the migrations are done and the loops run; answers 503 until then",
    response: { status: 200, schema: Readiness },
    errors: ["unavailable"],
    role: "none",
  }),
  getInfo: operation("getInfo", {
    operationId: "get_info",
    tag: "Server",
    summary: "Read the mode, regions, version and accepted sources of the installation",
    response: { status: 200, schema: Info },
    role: "none",
  }),
  listTemplates: operation("listTemplates", {
    operationId: "list_templates_v2_templates_get",
    tag: "Server",
    summary: "List the templates that a deployment can be created from",
    response: { status: 200, schema: TemplateList },
    role: "reader",
  }),
  getOpenapi: operation("getOpenapi", {
    operationId: "get_openapi",
    tag: "Server",
    summary: "Read this document",
    response: { status: 200, schema: freeObject() },
    role: "none",
  }),
};
