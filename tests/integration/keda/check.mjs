// Checks objects of KEDA, a JSON list on stdin: prints what is wrong with them, one line each. Beside values of
// a wrong kind that is every field that the schema never asks for: validators leave those alone, KEDA drops them.
import { readFileSync } from "node:fs";
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { TriggerAuthentication } from "@kubernetes-models/keda/keda.sh/v1alpha1/TriggerAuthentication";

const kinds = { ScaledObject, TriggerAuthentication };

function watched(value, path, unasked) {
  if (value === null || typeof value !== "object") return value;
  const inside = Array.isArray(value) ? [] : {};
  for (const [name, item] of Object.entries(value)) inside[name] = watched(item, `${path}/${name}`, unasked);
  for (const name of Object.keys(value)) unasked.add(`${path}/${name}`);
  return new Proxy(inside, {
    get(target, name) {
      if (typeof name === "string") unasked.delete(`${path}/${name}`);
      return target[name];
    },
  });
}

for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const unasked = new Set();
  const { apiVersion, kind, ...rest } = object;
  const made = new kinds[kind]();
  for (const [name, item] of Object.entries(rest)) {
    made[name] = watched(item, name, unasked);
    if (!["metadata", "spec"].includes(name)) unasked.add(name);
  }
  if (apiVersion !== made.apiVersion) console.log(`${kind}: apiVersion is ${made.apiVersion}`);
  try {
    made.validate();
  } catch (error) {
    console.log(`${kind}: ${error.message}`);
    continue;
  }
  for (const path of unasked) console.log(`${kind}: there is no ${path}`);
}
