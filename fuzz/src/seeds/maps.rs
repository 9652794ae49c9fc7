//! Seeds of register maps: small register descriptions in the three formats.

use super::Add;

const RNN: &str = "<database><enum name=\"chip\"><value name=\"A2\"/><value name=\"A3\"/></enum>\
<enum name=\"how\"><value name=\"FAST\" value=\"1\"/></enum>\
<bitset name=\"both\"><bitfield name=\"HOW\" low=\"0\" high=\"1\" type=\"how\"/><bitfield name=\"BASE\" low=\"4\" high=\"31\" shr=\"4\"/></bitset>\
<group name=\"g\"><reg32 offset=\"1\" name=\"LOW\" access=\"r\"/><reg64 offset=\"2\" name=\"WIDE\"/></group>\
<domain name=\"D\" width=\"32\" prefix=\"chip\"><reg32 offset=\"1\" name=\"ID\" variants=\"A3-\"/>\
<array offset=\"16\" name=\"MRT\" stride=\"8\" length=\"2\"><reg32 offset=\"0\" name=\"CTL\" type=\"both\"/><use-group name=\"g\"/></array>\
<reg32 offset=\"0x30\" name=\"X\" length=\"3\"/></domain></database>";

const GENXML: &str = "<genxml name=\"T\" gen=\"9\"><enum name=\"Mode\"><value name=\"ON\" value=\"1\"/></enum>\
<register name=\"CTL\" length=\"1\" num=\"0x2044\"><field name=\"Mode\" start=\"0\" end=\"1\" type=\"Mode\"/></register>\
<struct name=\"S\" length=\"2\"><group count=\"4\" start=\"0\" size=\"16\"><field name=\"P\" start=\"0\" end=\"15\" type=\"uint\"/></group></struct></genxml>";

const VCXML: &str = "<vcxml gen=\"2.1\"><packet code=\"71\" name=\"Cache\" shortname=\"cache\">\
<field name=\"count\" size=\"4\" start=\"4\" type=\"uint\" minus_one=\"true\"/><field name=\"address\" size=\"27\" start=\"13\" type=\"address\"/></packet></vcxml>";

const PANXML: &str = "<panxml><struct name=\"T\" size=\"2\"><field name=\"W\" size=\"16\" start=\"0:4\" type=\"uint\" modifier=\"minus(1)\"/>\
<field name=\"P\" size=\"32\" start=\"1:0\" type=\"address\" modifier=\"shr(4)\"/></struct></panxml>";

const SVD: &str = "<device><name>D</name><peripherals><peripheral><name>P</name><baseAddress>0x40000000</baseAddress><registers>\
<register><name>CTRL</name><addressOffset>0</addressOffset><fields><field><name>M</name><bitRange>[3:1]</bitRange>\
<enumeratedValues><enumeratedValue><name>A</name><value>#001</value></enumeratedValue></enumeratedValues></field></fields></register>\
<cluster><dim>2</dim><dimIncrement>16</dimIncrement><name>CH[%s]</name><addressOffset>0x10</addressOffset>\
<register derivedFrom=\"CTRL\"><name>V</name><addressOffset>0</addressOffset></register></cluster></registers></peripheral></peripherals></device>";

pub(super) fn add(add: Add<'_>) {
    add("map_svd", "device", SVD.into());
    add("map_rnn", "database", RNN.into());
    add("map_genxml", "genxml", GENXML.into());
    add("map_genxml", "vcxml", VCXML.into());
    add("map_genxml", "panxml", PANXML.into());
}
