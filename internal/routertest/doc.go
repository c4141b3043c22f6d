// Package routertest is a mongos for tests: a server in this process, in front
// of the real one, that refuses and stamps as a router of a sharded cluster
// does. It
//
//   - says `msg: "isdbgrid"`, so that the driver takes it for a router;
//   - refuses, with code 61, a findAndModify whose filter lacks an equality on
//     a field of the shard key, and an update or a delete of one document whose
//     filter lacks that and an equality on _id. Routers before MongoDB 7.0 do;
//   - puts its own clock in the place of `$$NOW`, as a router does;
//   - leaves the labels of errors out, as a router may.
//
// It moves no documents and keeps no chunks: all of them are on one shard.
//
//	router := routertest.Start(t, mongotest.URI(t))
//	router.Shard("shop.things", "region")
//	router.Skew(3 * time.Second)
//	client, err := mongo.Connect(options.Client().ApplyURI(router.URI()))
package routertest
