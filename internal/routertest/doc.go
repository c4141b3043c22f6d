// Package routertest is a mongos for tests: a server in this process, in front
// of the real one, that refuses commands and sets times as a router of a
// sharded cluster does. It
//
//   - says `msg: "isdbgrid"`, so that the driver treats it as a router;
//   - refuses, with code 61, a findAndModify whose filter lacks an equality on
//     a field of the shard key, and an update or a delete of one document whose
//     filter lacks that and an equality on _id. Routers before MongoDB 7.0 do;
//   - replaces `$$NOW` by its own clock, as a router does;
//   - drops the labels of errors, as a router may;
//   - refuses, with code 13, what its users have no right to, if a test says which
//     rights they have.
//
// It moves no documents and has no chunks: all documents are on one shard.
//
//	router := routertest.Start(t, mongotest.URI(t))
//	router.Shard("shop.things", "region")
//	router.Skew(3 * time.Second)
//	client, err := mongo.Connect(options.Client().ApplyURI(router.URI()))
package routertest
