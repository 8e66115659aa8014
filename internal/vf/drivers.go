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
//
// igb and ixgbe also serve chips without SR-IOV (I210, 82598).
var drivers = []Driver{
	{
		Name: "igb", VFDrivers: []string{"igbvf"},
		Vendor: "8086", PFDevices: []string{"10c9", "1521", "1522"}, // 82576, I350
		Lacks:  []Setting{SetVLANProto, SetLinkState, SetMinTxRate, SetRSSQuery},
		Lowest: 1, UpToLink: true, NeedsLink: true, ClearNeedsLink: true, DropsRates: true,
	}, {
		Name: "ixgbe", VFDrivers: []string{"ixgbevf"},
		Vendor: "8086", PFDevices: []string{"10fb", "1528", "1563"}, // 82599 SFP+, X540-T, X550-T
		Lacks:  []Setting{SetVLANProto, SetMinTxRate},
		Lowest: 11, UpToLink: true, NeedsLink: true, ClearNeedsLink: true, OnlyAt: 10000, DropsRates: true,
		ClearsMAC: OnlyIfSet,
	}, {
		Name: "i40e", VFDrivers: []string{"iavf", "i40evf"}, OnlySRIOV: true,
		Lacks:  []Setting{SetVLANProto, SetMinTxRate, SetRSSQuery},
		Lowest: 50, Raises: true, Step: 50, UpToLink: true, NeedsLink: true,
	}, {
		Name: "ice", VFDrivers: []string{"iavf"}, OnlySRIOV: true,
		Lacks:  []Setting{SetVLANProto, SetRSSQuery},
		Lowest: 1, UpToLink: true,
	}, {
		Name: "mlx5_core", VFDrivers: []string{"mlx5_core"}, Vendor: "15b3",
		PFDevices: []string{"1011", "1013", "1015", "1017", "1019", "101b", "101d", "101f", "1021", "1023", "a2d2", "a2d6", "a2dc"},
		VFDevices: []string{"1012", "1014", "1016", "1018", "101a", "101c", "101e", "a2d3"},
		SwitchOn:  "with mlxconfig -d %s set SRIOV_EN=1 NUM_OF_VFS=8",
		Lacks:     []Setting{SetVLANProto, SetRSSQuery},
		Lowest:    1,
	}, {
		Name: "cxgb4", VFDrivers: []string{"cxgb4vf"}, Split: true,
		Lacks:  []Setting{SetVLANProto, SetSpoofChk, SetTrust, SetMinTxRate, SetRSSQuery},
		Lowest: 1, UpToLink: true, NeedsLink: true,
		NoQoS: true, ClearsMAC: Never,
	}, {
		Name: "bnxt_en", VFDrivers: []string{"bnxt_en"},
		Lacks:  []Setting{SetVLANProto, SetRSSQuery},
		Lowest: 1, UpToLink: true,
		NoQoS: true,
	},
	{Name: "nfp", VFDrivers: []string{"nfp_netvf"}},
	{Name: "fm10k", VFDrivers: []string{"fm10k"}, Vendor: "8086", VFDevices: []string{"15a5"}},
	{Name: "mlx4_core", VFDrivers: []string{"mlx4_core"}},
	{Name: "qede", VFDrivers: []string{"qede"}},
	{Name: "sfc", VFDrivers: []string{"sfc"}},
}
