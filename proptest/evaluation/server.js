// The real server.
import { MongoClient } from 'mongodb';
import { Raised } from './raised.js';

const types = { promoteValues: false, bsonRegExp: true };

export class Server {
  static async connect(uri, connections) {
    const client = new MongoClient(uri, { retryWrites: false, maxPoolSize: connections });
    await client.connect();
    return new Server(client);
  }

  constructor(client) {
    this.client = client;
    this.db = client.db(`evaluation_${process.pid}`);
    this.collection = this.db.collection('documents');
  }

  insert(docs) { return this.collection.insertMany(docs); }

  // send answers as commands.evaluate does.
  async send(command) {
    let reply;
    try {
      reply = await this.db.command(command, types);
    } catch (error) {
      if (error.code === undefined) throw error;
      return { error: new Raised(Number(error.code), error.message) };
    }
    if (reply.writeErrors) return { error: new Raised(Number(reply.writeErrors[0].code), reply.writeErrors[0].errmsg) };
    const image = (command.find ? reply.cursor.firstBatch[0] : reply.value) ?? undefined;
    return { image, matched: reply.n === undefined ? undefined : Number(reply.n) };
  }

  // documents are the stored ones, by the number in their _id.
  async documents() {
    const all = await this.collection.find({}, types).toArray();
    return new Map(all.map((doc) => [Number(doc._id), doc]));
  }

  clear() { return this.collection.deleteMany({}); }

  async close() {
    await this.db.dropDatabase();
    await this.client.close();
  }
}
