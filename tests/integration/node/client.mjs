// Plays Leduc hold'em to the end over gRPC, both seats, with nothing but the proto file.
// node client.mjs PROTO ADDRESS GAMES
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [proto, address, count] = process.argv.slice(2);
const KEY = 16;
const OK = 0, REPEATED = 1, WRONG_KEY = 8, NOBODY = 255;

const definition = loader.loadSync(proto, { keepCase: true, longs: String, enums: Number, defaults: true });
const { BatchGames } = grpc.loadPackageDefinition(definition).playmill.batch.v1;
const client = new BatchGames(address, grpc.credentials.createInsecure());

const call = (name, request) =>
  new Promise((resolve, reject) =>
    client[name](request, (error, reply) => (error ? reject(error) : resolve(reply))));

const check = (condition, what) => {
  if (!condition) throw new Error(`not so: ${what}`);
};

const made = await call("CreateBatchGames", { game: "leduc", count: Number(count) });
const n = made.game.length / 8;
const places = made.seats + 1;
check(n === Number(count), "as many games as asked for");

// The address columns of some rows: ids, seats and keys.
const address_of = (rows, seat) => ({
  hall: made.hall,
  game: Buffer.concat(rows.map((i) => made.game.subarray(8 * i, 8 * i + 8))),
  seat: Buffer.from(rows.map(() => seat)),
  key: Buffer.concat(rows.map((i) => made.key.subarray(KEY * (places * i + seat), KEY * (places * i + seat + 1)))),
});

const all = [...Array(n).keys()];
const stolen = { ...address_of(all, 0), seat: Buffer.from(all.map(() => 1)) };
const peek = await call("GetBatchStates", stolen);
check(peek.standing.every((s) => s === WRONG_KEY), "the key of seat 0 does not open seat 1");
check(peek.observation.every((b) => b === 0), "nothing is shown to the wrong key");

let turns = 0;
for (let going = true; going; ) {
  going = false;
  for (let seat = 0; seat < made.seats; ++seat) {
    const states = await call("GetBatchStates", address_of(all, seat));
    check(states.layout_hash === made.layout_hash, "the layout is the same in every reply");
    check(states.observation.length === n * made.observation_bytes, "a row of observation a game");
    const mine = all.filter((i) => states.to_act[i] === seat);
    if (mine.length === 0) continue;
    const actions = Buffer.alloc(4 * mine.length);
    mine.forEach((i, k) => {
      const legal = states.legal.subarray(made.legal_bytes * i, made.legal_bytes * (i + 1));
      const can = [...Array(made.actions).keys()].filter((a) => (legal[a >> 3] >> (a & 7)) & 1);
      check(can.length > 0, "whose turn it is can act");
      actions.writeInt32LE(can[(turns + i) % can.length], 4 * k);
    });
    const request = {
      ...address_of(mine, seat),
      turn: Buffer.concat(mine.map((i) => states.turn.subarray(4 * i, 4 * i + 4))),
      action: actions,
    };
    const answers = await call("SubmitBatchActions", request);
    check(answers.standing.every((s) => s === OK), "legal answers are taken");
    const again = await call("SubmitBatchActions", request);
    check(again.standing.every((s) => s === REPEATED), "and counted once");
    turns += mine.length;
    going = true;
  }
}

const last = await call("GetBatchStates", address_of(all, 0));
check(last.over.every((o) => o === 1) && last.to_act.every((s) => s === NOBODY), "all games are over");
const hosts = address_of(all, made.seats);
const gone = await call("DeleteGames", { hall: made.hall, game: hosts.game, key: hosts.key });
check(gone.standing.every((s) => s === OK), "games can be deleted");

const stream = client.StreamBatchStates({ seats: address_of(all, 0), interval_ms: 5 });
const first = await new Promise((resolve, reject) => stream.once("data", resolve).once("error", reject));
stream.on("error", () => {}).cancel();
check(first.row.length === 4 * n, "a stream shows all rows first");

let sum = 0;
for (let i = 0; i < n; ++i)
  for (let s = 0; s < made.seats; ++s) sum += last.rewards.readFloatLE(4 * (i * made.seats + s));
console.log(JSON.stringify({ games: n, turns, sum }));
client.close();
