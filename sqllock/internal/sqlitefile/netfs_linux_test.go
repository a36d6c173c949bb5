package sqlitefile

import "testing"

func TestMagicNumbersOfFileSystems(t *testing.T) {
	for magic, network := range map[uint32]bool{
		0x6969: true, 0xff534d42: true, 0xfe534d42: true, 0x65735546: true, 0x01021997: true,
		0x47504653: true, 0x0bd00bd0: true, 0x5346414f: true, 0x00c36400: true,
		0xef53: false, 0x58465342: false, 0x9123683e: false, 0x01021994: false, 0x794c7630: false, 0x2fc12fc1: false,
	} {
		if got := networkKinds[magic]; (got != "") != network {
			t.Errorf("%#x is %q, network: %v", magic, got, network)
		}
	}
}
