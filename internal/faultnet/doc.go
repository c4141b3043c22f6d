// Package faultnet is a network for tests: a dialer for the driver whose
// connections lose, hold, repeat and rewrite the messages of chosen commands,
// to and from a real server. It understands just enough of the wire protocol to
// distinguish commands.
//
//	net := faultnet.New()
//	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetDialer(net))
//	lost := net.Arm(faultnet.LoseReply, "findAndModify")
//	… // the next findAndModify is executed, and its reply never arrives
//	<-lost.Fired()
package faultnet
