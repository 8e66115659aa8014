package vf

// drivers has one row for each PF driver, from the sources of Linux 6.12. In
// drivers/net/ethernet:
//
//	igb     intel/igb/igb_main.c          igb_ndo_set_vf_bw, igb_check_vf_rate_limit
//	ixgbe   intel/ixgbe/ixgbe_sriov.c     ixgbe_ndo_set_vf_bw, ixgbe_check_vf_rate_limit;
//	        ixgbe_set_vf_mac finds no filter to delete where there is no MAC
//	i40e    intel/i40e/i40e_virtchnl_pf.c i40e_ndo_set_vf_bw; i40e_main.c i40e_set_bw_limit,
//	        which counts in credits of 50 Mb/s; its VFs had i40evf until Linux 4.20
//	ice     intel/ice/ice_sriov.c         ice_set_vf_bw; ice_lib.c ice_set_max_bw_limit; its
//	        scheduler counts in 500 kb/s (ICE_SCHED_MIN_BW), so whole Mb/s are exact
//	mlx5    mellanox/mlx5/core/eswitch.c  mlx5_eswitch_set_vport_rate; main.c mlx5_core_pci_table
//	cxgb4   chelsio/cxgb4/cxgb4_main.c    cxgb4_mgmt_set_vf_rate, _vlan and _mac
//	bnxt    broadcom/bnxt/bnxt_sriov.c    bnxt_set_vf_bw, bnxt_set_vf_vlan
//	nfp     netronome/nfp/nfp_netvf_main.c
//	fm10k   intel/fm10k/fm10k_type.h      FM10K_DEV_ID_VF
//	bnx2x   broadcom/bnx2x/bnx2x_sriov.c  bnx2x_get_vf_config, which reports a max_tx_rate of 10000
//	        always; bnx2x_set_vf_vlan ignores a priority; bnx2x_main.c bnx2x_netdev_ops
//	hns3    hisilicon/hns3/hns3pf/hclge_main.c hclge_vf_rate_param_check, hclge_set_vf_vlan_filter
//	rvu     marvell/octeontx2/nic/otx2_pf.c otx2_netdev_ops, otx2_set_vf_vlan; otx2_do_set_vf_vlan
//	        unlocks a mutex that it has not locked if VLAN 0 is set where there is none
//	ionic   pensando/ionic/ionic_lif.c    ionic_set_vf_rate, ionic_set_vf_vlan
//	qede    qlogic/qede/qede_main.c       qede_pci_tbl
//	sfc     sfc/efx.c                     efx_pci_table
//	mlx4    mellanox/mlx4/main.c          mlx4_pci_table; no sriov_configure, so sriov_numvfs is
//	        not written
//
// igb and ixgbe also serve chips without SR-IOV (I210, 82598).
var drivers = []Driver{
	{
		Name: "igb", VFDrivers: []string{"igbvf"}, VFQueues: 1, // igbvf/netdev.c: one ring each way
		Windows: WindowsVF{Driver: "Intel 82576 Virtual Function, I350 Virtual Function", Pairs: []string{"10ca"}},
		Vendors: []string{"8086"}, PFDevices: []string{"10c9", "1521", "1522"}, // 82576, I350
		Lacks:  []Setting{SetVLANProto, SetLinkState, SetMinTxRate, SetRSSQuery},
		Lowest: 1, UpToLink: true, NeedsLink: true, ClearNeedsLink: true, DropsRates: true, CountsVFs: true,
	}, {
		Name: "ixgbe", VFDrivers: []string{"ixgbevf"},
		Windows: WindowsVF{Driver: "Intel 82599, X540, X550 or X552 Virtual Function", Pairs: []string{"10ed", "1515", "15a8"}},
		Vendors: []string{"8086"}, PFDevices: []string{"10fb", "1528", "1563"}, // 82599 SFP+, X540-T, X550-T
		Lacks:  []Setting{SetVLANProto, SetMinTxRate},
		Lowest: 11, UpToLink: true, NeedsLink: true, ClearNeedsLink: true, OnlyAt: 10000, DropsRates: true,
		ClearsMAC: OnlyIfSet,
	}, {
		Name: "i40e", VFDrivers: []string{"iavf", "i40evf"}, OnlySRIOV: true,
		Windows: WindowsVF{Driver: "Intel Ethernet Virtual Function 700 Series", Pairs: []string{"154c"}},
		Vendors: []string{"8086"}, // i40e_devids.h: X710, XL710, XXV710, X722
		PFDevices: []string{"104e", "104f", "0cf8", "0d58", "1572", "1580", "1581", "1583", "1584", "1585", "1586", "1587", "1588", "1589",
			"158a", "158b", "15ff", "37ce", "37cf", "37d0", "37d1", "37d2", "37d3"},
		Lacks:  []Setting{SetVLANProto, SetMinTxRate, SetRSSQuery},
		Lowest: 50, Raises: true, Step: 50, UpToLink: true, NeedsLink: true,
	}, {
		Name: "ice", VFDrivers: []string{"iavf"}, OnlySRIOV: true,
		Windows: WindowsVF{Driver: "Intel Ethernet Adaptive Virtual Function"},
		Vendors: []string{"8086"}, // ice_devids.h: E810, E822, E823, E825, E830
		PFDevices: []string{"1591", "1592", "1593", "1599", "159a", "159b", "124c", "124d", "124e", "124f", "151d", "188a", "188b", "188c", "188d", "188e",
			"1890", "1891", "1892", "1893", "1894", "1897", "1898", "1899", "189a", "12d1", "12d2", "12d3", "12d5", "579c", "579d", "579e", "579f"},
		Lacks:  []Setting{SetVLANProto, SetRSSQuery},
		Lowest: 1, UpToLink: true,
	}, {
		Name: "mlx5_core", VFDrivers: []string{"mlx5_core"}, Vendors: []string{"15b3"},
		Windows:   WindowsVF{Driver: "NVIDIA WinOF-2: Mellanox ConnectX Virtual Adapter", Pairs: []string{"101a"}},
		PFDevices: []string{"1011", "1013", "1015", "1017", "1019", "101b", "101d", "101f", "1021", "1023", "a2d2", "a2d6", "a2dc"},
		VFDevices: []string{"1012", "1014", "1016", "1018", "101a", "101c", "101e", "a2d3"},
		SwitchOn:  "with mlxconfig -d %s set SRIOV_EN=1 NUM_OF_VFS=8",
		Limit:     "mlxconfig -d %s query NUM_OF_VFS NUM_VF_MSIX",
		Lacks:     []Setting{SetVLANProto, SetRSSQuery},
		Lowest:    1,
	}, {
		Name: "cxgb4", VFDrivers: []string{"cxgb4vf"}, Split: true,
		Lacks:  []Setting{SetVLANProto, SetSpoofChk, SetTrust, SetMinTxRate, SetRSSQuery},
		Lowest: 1, UpToLink: true, NeedsLink: true,
		NoQoS: true, ClearsMAC: Never,
	}, {
		Name: "bnxt_en", VFDrivers: []string{"bnxt_en"},
		Windows: WindowsVF{Driver: "Broadcom NetXtreme-E Virtual Function", Pairs: []string{"16dc"}},
		Lacks:   []Setting{SetVLANProto, SetRSSQuery},
		Lowest:  1, UpToLink: true,
		NoQoS: true,
	},
	{
		Name: "bnx2x", VFDrivers: []string{"bnx2x"},
		Windows:   WindowsVF{Driver: "Broadcom or QLogic NetXtreme II BCM57810 Virtual Function", Pairs: []string{"16af"}},
		Vendors:   []string{"14e4", "1077"}, // Broadcom, QLogic: 57712, 57800, 57810, 57811, 57840
		PFDevices: []string{"1662", "1663", "168a", "16a5", "168e", "16ae", "163d", "163e", "16a1", "16a2", "16a4", "168d", "16ab"},
		VFDevices: []string{"166f", "16a9", "16af", "163f", "16ad"},
		Lacks:     []Setting{SetVLANProto, SetTrust, SetMinTxRate, SetMaxTxRate, SetRSSQuery},
		NoQoS:     true, ClearsMAC: Never,
	}, {
		Name: "hns3", VFDrivers: []string{"hns3"},
		Vendors: []string{"19e5"}, VFDevices: []string{"a22e", "a22f"},
		Lacks:  []Setting{SetVLANProto, SetMinTxRate, SetRSSQuery},
		Lowest: 1,
	}, {
		Name: "rvu_nicpf", VFDrivers: []string{"rvu_nicvf"},
		Vendors: []string{"177d"}, PFDevices: []string{"a063"}, VFDevices: []string{"a064"},
		Lacks: []Setting{SetVLANProto, SetSpoofChk, SetLinkState, SetMinTxRate, SetMaxTxRate, SetRSSQuery},
		NoQoS: true, ClearsMAC: Never, BreaksOnNoVLAN: true, KeepsSettings: true,
	}, {
		Name: "ionic", VFDrivers: []string{"ionic"},
		Vendors: []string{"1dd8"}, PFDevices: []string{"1002"}, VFDevices: []string{"1003"},
		Lacks: []Setting{SetVLANProto, SetMinTxRate, SetRSSQuery},
		NoQoS: true,
	}, {
		Name: "nfp", VFDrivers: []string{"nfp_netvf"},
		Vendors:   []string{"19ee", "1da8"}, // Netronome, Corigine
		PFDevices: []string{"3800", "4000", "5000", "6000"}, VFDevices: []string{"3803", "6003"},
	}, {
		Name: "fm10k", VFDrivers: []string{"fm10k"}, Vendors: []string{"8086"}, VFDevices: []string{"15a5"},
	}, {
		Name: "mlx4_core", VFDrivers: []string{"mlx4_core"},
		Vendors: []string{"15b3"}, PFDevices: []string{"1003", "1007"}, VFDevices: []string{"1002", "1004"}, // ConnectX-3
		SwitchOn: "with mlxconfig -d %s set SRIOV_EN=1 NUM_OF_VFS=8, and with the parameter num_vfs=8 of mlx4_core",
		Limit:    "mlxconfig -d %s query NUM_OF_VFS",
	}, {
		Name: "qede", VFDrivers: []string{"qede"},
		Vendors:   []string{"1077"},
		PFDevices: []string{"1634", "1666", "1636", "1644", "1654", "1656", "8070"}, VFDevices: []string{"1664", "8090"},
	}, {
		Name: "sfc", VFDrivers: []string{"sfc"},
		Vendors:   []string{"1924"},
		PFDevices: []string{"0903", "0923", "0a03", "0b03"}, VFDevices: []string{"1903", "1923", "1a03", "1b03"},
	},
}
