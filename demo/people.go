package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The names from which the people are made up, and the categories.
var (
	firstNames = strings.Fields(`Ada Amina Anders Aoife Beatriz Bilal Carla Chen Dario Deepa Elif Emeka Femi Fiona Giulia
		Grace Hana Henrik Ines Ivan Jamal Jolanta Kaito Keisha Lars Leila Marek Mei Nadia Noah Olga Omar Paula Priya Quentin
		Rosa Ruth Samir Sofia Tariq Tessa Umar Ursula Viktor Wanjiru Xavier Yara Yusuf Zofia Zola`)
	lastNames = strings.Fields(`Abara Andersson Bakker Banerjee Costa Cohen Demir Diallo Eriksen Fischer Fofana Garcia Haddad
		Horvat Ibrahim Ito Jansen Kaya Kim Kowalski Lindqvist Lovelace Mbeki Moreau Nakamura Novak Okafor Oliveira Papadakis
		Petrov Quispe Rahman Rossi Sato Schmidt Silva Tanaka Torres Ueda Varga Virtanen Walsh Wang Xu Yilmaz Zhang Zielinski`)
	cities = strings.Fields(`Accra Athens Bergen Bogota Cork Dakar Gdansk Graz Izmir Kyoto Lagos Lima Lyon Malmo Nairobi
		Porto Pune Tampere Turin Utrecht`)
	mailHosts = strings.Fields(`example.com example.net example.org`) // reserved for examples

	categoryNames = strings.Fields(`Family Friends Neighbours Colleagues Customers Suppliers School Choir Football Chess Climbing
		Doctors Plumbers Lawyers Landlords Newsletter Birthdays Wedding Travel Emergency`)
)

const contactCount = 300

// A person is a contact that is not in the database yet. It has names of categories, since the categories have no ids yet.
type person struct {
	name, email, phone, city string
	categories               []string
}

// people makes up the people of an address book. The same seed gives the same people.
func people(seed uint64) []person {
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	mailboxes := map[string]int{}
	all := make([]person, contactCount)
	for i := range all {
		first, last := pick(firstNames), pick(lastNames)
		mailbox := strings.ToLower(first + "." + last)
		mailboxes[mailbox]++
		if namesakes := mailboxes[mailbox]; namesakes > 1 {
			mailbox = fmt.Sprintf("%s%d", mailbox, namesakes)
		}
		all[i] = person{
			name:  first + " " + last,
			email: mailbox + "@" + pick(mailHosts),
			phone: fmt.Sprintf("+%d 555 %04d", 20+random.IntN(79), random.IntN(10000)),
			city:  pick(cities),
		}
		for _, j := range random.Perm(len(categoryNames))[:random.IntN(4)] {
			all[i].categories = append(all[i].categories, categoryNames[j])
		}
	}
	return all
}
