import { TemplateList } from "../deployments/template.ts";
import { operation } from "../operation.ts";
import { freeObject } from "../schema.ts";
import { Info, Ok, Readiness } from "./info.ts";

/** What the installation says about itself; no key needed but for what it has to offer. */
export const serverOperations = {
  getOk: operation("getOk", {
    operationId: "get_ok",
    tag: "Server",
    summary: "Is the process alive?",
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
    summary: "Are migrations done and the loops running? 503 until they are",
    response: { status: 200, schema: Readiness },
    errors: ["unavailable"],
    role: "none",
  }),
  getInfo: operation("getInfo", {
    operationId: "get_info",
    tag: "Server",
    summary: "Mode, regions, version and the sources on offer",
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
    summary: "This document",
    response: { status: 200, schema: freeObject() },
    role: "none",
  }),
};
