//! Places on the earth.

use crate::table::key_flag::{ACCESS, OW, RO, RW, UPDATE};
use crate::table::keys::OptionArguments;
use crate::table::spec::acl;
use crate::table::spec::flag::{DENYOOM, READONLY, WRITE};
use crate::table::spec::{Answers, CommandSpec, Group, command, key, key_after};

const fn geo(name: &'static str, arity: i16, since: &'static str, summary: &'static str) -> CommandSpec {
    command(Group::Geo, acl::GEO, name, arity, since, summary)
}

const LOG_EACH: &str = "O(log(N)) for each member, N being the number of members of the sorted set";
const EACH: &str = "O(1) for each member";
const AREA: &str = "O(N+log(M)), N being the number of members in the cells around the shape and M the number of members of the sorted set";

/// The options of GEORADIUS that an argument follows.
const OPTIONS: &[OptionArguments] = &[("COUNT", 1), ("STORE", 1), ("STOREDIST", 1)];

pub(in crate::table) const ROWS: &[CommandSpec] = &[
    geo("GEOADD", -5, "3.2.0", "Adds members to a sorted set by their positions; creates the key if it does not exist.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RW | UPDATE)])
        .cost(LOG_EACH)
        .args("key [NX | XX] [CH] longitude:double latitude:double member [longitude:double latitude:double member ...]"),
    geo("GEODIST", -4, "3.2.0", "Returns how far two members are from one another.")
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .args("key member1 member2 [M | KM | FT | MI]"),
    geo("GEOHASH", -2, "3.2.0", "Returns the positions of members as geohash strings.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(EACH)
        .args("key [member [member ...]]"),
    geo("GEOPOS", -2, "3.2.0", "Returns the positions of members as longitudes and latitudes.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(EACH)
        .args("key [member [member ...]]"),
    geo("GEORADIUS", -6, "3.2.0", "Returns or stores the members within a radius of a position.")
        .answers(Answers::Values)
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RO | ACCESS), key_after("STORE", 6, OPTIONS, OW | UPDATE), key_after("STOREDIST", 6, OPTIONS, OW | UPDATE)])
        .cost(AREA)
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument")
        .args("key longitude:double latitude:double radius:double <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count:integer [ANY]] [ASC | DESC] [STORE storekey:key] [STOREDIST storedistkey:key]"),
    geo("GEORADIUSBYMEMBER", -5, "3.2.0", "Returns or stores the members within a radius of a member.")
        .answers(Answers::Values)
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, RO | ACCESS), key_after("STORE", 5, OPTIONS, OW | UPDATE), key_after("STOREDIST", 5, OPTIONS, OW | UPDATE)])
        .cost(AREA)
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments")
        .args("key member radius:double <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count:integer [ANY]] [ASC | DESC] [STORE storekey:key] [STOREDIST storedistkey:key]"),
    geo("GEORADIUSBYMEMBER_RO", -5, "3.2.10", "Returns the members within a radius of a member.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(AREA)
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments")
        .args("key member radius:double <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count:integer [ANY]] [ASC | DESC]"),
    geo("GEORADIUS_RO", -6, "3.2.10", "Returns the members within a radius of a position.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(AREA)
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument")
        .args("key longitude:double latitude:double radius:double <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count:integer [ANY]] [ASC | DESC]"),
    geo("GEOSEARCH", -7, "6.2.0", "Returns the members within a circle or a box.")
        .answers(Answers::Values)
        .flags(READONLY)
        .touches(&[key(1, RO | ACCESS)])
        .cost(AREA)
        .args("key <FROMMEMBER member | FROMLONLAT longitude:double latitude:double> <BYRADIUS radius:double <M | KM | FT | MI> | BYBOX width:double height:double <M | KM | FT | MI>> [ASC | DESC] [COUNT count:integer [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]"),
    geo("GEOSEARCHSTORE", -8, "6.2.0", "Stores the members within a circle or a box in a key.")
        .flags(WRITE | DENYOOM)
        .touches(&[key(1, OW | UPDATE), key(2, RO | ACCESS)])
        .cost(AREA)
        .args("destination:key source:key <FROMMEMBER member | FROMLONLAT longitude:double latitude:double> <BYRADIUS radius:double <M | KM | FT | MI> | BYBOX width:double height:double <M | KM | FT | MI>> [ASC | DESC] [COUNT count:integer [ANY]] [STOREDIST]"),
];
